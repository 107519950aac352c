// A dapp of today pairs with the kit's wallet: sign-client, unmodified, from the packages of the repository's tests.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'

import { startBridge } from '../source/index.js'

const packages = new URL('../../../tests/node/', import.meta.url)
const isInstalled = existsSync(new URL('node_modules/@walletconnect/sign-client', packages))
const MESSAGE = '0x68656c6c6f'
let bridge
let relayUrl

before(async () => {
  if (!isInstalled) return
  bridge = await startBridge({ devAccounts: true })
  relayUrl = bridge.url.replace('http', 'ws')
})
after(async () => {
  await bridge?.stop()
  setTimeout(() => process.exit(), 500) // a client of sign-client cannot be closed, and keeps its process alive
})

/** A dapp that keeps nothing, and reaches nothing but the relay. */
async function newDapp() {
  const { SignClient } = createRequire(packages)('@walletconnect/sign-client')
  return SignClient.init({
    relayUrl,
    projectId: 'any',
    telemetryEnabled: false,
    logger: 'silent',
    storageOptions: { database: ':memory:' },
    metadata: { name: 'dapp', description: '', url: 'https://dapp.example', icons: [] },
  })
}

const propose = (dapp) =>
  dapp.connect({
    optionalNamespaces: {
      eip155: { chains: ['eip155:1'], methods: ['personal_sign', 'eth_sendTransaction'], events: ['accountsChanged'] },
    },
  })

test('a dapp of generation 2.x pairs, is answered by rules, and parts', { skip: !isInstalled }, async () => {
  const dapp = await newDapp()
  const wallet = await bridge.wallet({ relayUrl, chainId: 1, on: { eth_sendTransaction: 'reject' } })
  const { uri, approval } = await propose(dapp)

  const paired = await wallet.pair(uri)
  const { topic, namespaces } = await approval()
  const ask = (method, params) => dapp.request({ topic, chainId: 'eip155:1', request: { method, params } })

  assert.equal(namespaces.eip155.accounts[0].toLowerCase(), `eip155:1:${wallet.accounts[0].toLowerCase()}`)
  assert.match(await ask('personal_sign', [MESSAGE, wallet.accounts[0]]), /^0x[0-9a-f]{130}$/)
  await assert.rejects(ask('eth_sendTransaction', [{ from: wallet.accounts[0], to: wallet.accounts[0] }]))
  const [signed, refused] = await wallet.calls()
  assert.deepEqual([signed.method, signed.state], ['personal_sign', 'answered'])
  assert.equal(refused.method, 'eth_sendTransaction')

  const ended = new Promise((resolve) => dapp.once('session_delete', resolve))
  await paired.disconnect()
  assert.equal((await ended).topic, topic)
  await wallet.stop()
})

test('a wallet that rejects sessions says so to a dapp of generation 2.x', { skip: !isInstalled }, async () => {
  const dapp = await newDapp()
  const wallet = await bridge.wallet({ relayUrl, session: 'reject' })
  const { uri, approval } = await propose(dapp)
  const refused = approval().then(
    () => 'approved',
    (error) => error.message
  )

  await wallet.pair(uri)

  assert.match(await refused, /reject/i)
  await wallet.stop()
})
