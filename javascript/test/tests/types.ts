// Never run: `tsc` reads it, and says where the types differ from what the documentation shows.

import { connectBridge, RefusedError, startBridge } from '@bridge-server/test'
import type { Bridge, Call, Duration, Session } from '@bridge-server/test'
import setupForJest, { useBridge as useBridgeOfJest } from '@bridge-server/test/jest'
import { useBridge } from '@bridge-server/test/node-test'
import { expect as expectOfPlaywright, test as testOfPlaywright } from '@bridge-server/test/playwright'
import setupForVitest from '@bridge-server/test/vitest'
import { expect, test } from '@bridge-server/test/vitest-fixtures'
import { defineConfig } from '@playwright/test'
import { inject } from 'vitest'
import { defineConfig as defineVitestConfig } from 'vitest/config'

export async function steps() {
  await using bridge = await startBridge({ settings: { session_ttl: 60 }, devAccounts: true })
  const addresses: string[] = [bridge.url, bridge.v07Url, bridge.rpcUrl, ...bridge.accounts]
  const { swept, delivered } = await bridge.clock.advance({ days: 1 })
  await bridge.clock.set(new Date(), { frozen: true })
  await bridge.reset()
  const [rule] = await bridge.faults.set([{ where: 'request', route: 'call-status', status: 503, times: 2 }])
  const [sent] = await bridge.sent({ channel: 'fcm', wait: 5 })
  const wallet = await bridge.wallet({
    on: { eth_sendTransaction: 'reject', personal_sign: ['approve*2', 'hang'] },
  })
  const session: Session = await wallet.pair('wc:...')
  await session.switchChain(1)
  const call: Call = await wallet.nextCall('personal_sign', { timeout: 5 })
  await call.reject({ code: 4001 })
  return [addresses, swept + delivered, rule.hits, sent.title, call.text]
}

type Faults = Parameters<Bridge['faults']['set']>[0]

// @ts-expect-error A span of time has known units.
export const wrongSpan: Duration = { fortnights: 1 }

// @ts-expect-error A fault strikes at a known place.
export const wrongFault: Faults = [{ where: 'x' }]

test('vitest', async ({ bridge, wallet }) => {
  const shared = await connectBridge(inject('bridge'))
  expect(await shared.traffic()).toEqual(await bridge.traffic({ after: 1 }))
  await wallet.setRules({ personal_sign: 'ask' })
})

testOfPlaywright.use({ walletOptions: { policy: 'ask' } })

testOfPlaywright('playwright', async ({ page, bridge, wallet }) => {
  await wallet.install(page)
  const session = await wallet.scan(page)
  expectOfPlaywright(session.dapp.name).toBe(bridge.url)
})

export const hooks = [useBridge({ settings: { session_ttl: 60 } }).rpcUrl, useBridgeOfJest().url]
export const setups = [setupForJest, setupForVitest]
export const refused = (error: unknown) => error instanceof RefusedError && error.problem
export const playwrightConfig = defineConfig<{}, { bridgeOptions: { devAccounts: boolean } }>({
  use: { bridgeOptions: { devAccounts: false } },
})
export const vitestConfig = defineVitestConfig({
  test: {
    globalSetup: '@bridge-server/test/vitest',
    provide: { bridgeOptions: { settings: { session_ttl: 60 } } },
  },
})
