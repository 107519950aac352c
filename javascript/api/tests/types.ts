// Never run: `tsc` reads it, and says where the types differ from what the documentation shows.

import { BridgeUnreachableError, Notifier, RequestRefusedError } from '@bridge-server/api'
import type { NotifyResult, Progress, SubscribedAccount } from '@bridge-server/api'

const notifier = new Notifier('https://bridge.example.org', 'example-app', 'bsk_x', { patienceSeconds: 10 })
const content = { type: 'price-alert', title: 'ETH is up', body: '1 ETH costs 4,000 USD.' }

export async function steps() {
  const result: NotifyResult = await notifier.notify({ ...content, to: ['eip155:1:0x'], id: 'x', dryRun: true })
  const waits = result.failed.map(({ reason, retryAfter }) => reason === 'rate_limited' && retryAfter)
  let last: Progress | undefined
  for await (const progress of notifier.notifyAll({ ...content, after: last?.after })) last = progress
  for await (const account of notifier.subscribers()) account.toUpperCase()
  const found: Map<string, SubscribedAccount> = await notifier.lookup(new Set(['eip155:1:0x']))
  return [waits, last?.total, found.get('x')?.notificationTypes]
}

export const status = (error: unknown) => (error instanceof RequestRefusedError ? error.status : 0)
export const sent = (error: unknown) => error instanceof BridgeUnreachableError && error.mayHaveSent

// @ts-expect-error A call to notify names its accounts.
export const nobody = () => notifier.notify(content)
