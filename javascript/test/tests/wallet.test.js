import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'

import { RefusedError, startBridge } from '../source/index.js'
import { newDapp, withoutClient } from './published_clients.js'

const ORIGIN = 'https://dapp.example'
const HELLO = '0x68656c6c6f'

let bridge, wallet

before(async () => {
  bridge = await startBridge()
  wallet = await bridge.wallet({ accounts: [1, 0], on: { eth_sign: 'reject' } })
})
beforeEach(() => wallet.reset())
after(() => bridge?.stop())

const connect = () => wallet.request({ method: 'eth_requestAccounts', origin: ORIGIN })
const sign = () =>
  wallet.request({ method: 'personal_sign', params: [HELLO, wallet.accounts[0]], origin: ORIGIN })

test('a page is given the accounts, and its calls are answered by rules', async () => {
  await wallet.setRules({ personal_sign: ['approve*1', 'reject'] })

  assert.deepEqual((await connect()).result, wallet.accounts)
  assert.match(wallet.accounts[0], /^0x70997970/i)
  assert.match((await sign()).result, /^0x[0-9a-f]{130}$/)
  assert.equal((await sign()).error.code, 4001)
})

test('a call that is asked for waits for the test', async () => {
  await wallet.setRules({ personal_sign: 'ask' })
  await connect()

  const approved = sign()
  const call = await wallet.nextCall('personal_sign', { timeout: 60 })
  await call.approve()
  const rejected = sign()
  await (await wallet.nextCall('personal_sign', { timeout: 60 })).reject({ code: 4100, message: 'not today' })
  const answered = sign()
  await (await wallet.nextCall(undefined, { timeout: 60 })).answer('0x1234')

  assert.deepEqual([call.text, call.state], ['hello', 'answered'])
  assert.match((await approved).result, /^0x/)
  assert.deepEqual((await rejected).error, { code: 4100, message: 'not today' })
  assert.deepEqual(await answered, { result: '0x1234' })
})

test('a call that does not come is said', () =>
  assert.rejects(wallet.nextCall('personal_sign', { timeout: 0 }), /No call of personal_sign/))

test('rules are replaced, and a reset brings back those of the start', async () => {
  assert.deepEqual(await wallet.setRules({ personal_sign: 'answer:"0x"' }), ['personal_sign=answer:"0x"'])
  await connect()
  assert.deepEqual(await sign(), { result: '0x' })

  await wallet.reset()

  assert.deepEqual([await wallet.sessions(), await wallet.calls()], [[], []])
  assert.deepEqual(await wallet.setRules([]), [])
})

test('a session changes its account and its chain, and ends', async () => {
  const events = await wallet.events()
  await connect()
  const [session] = await wallet.sessions()

  await session.switchAccount(wallet.accounts[1])
  await session.switchChain(10)
  await session.disconnect()

  assert.equal(session.chain_id, 10)
  const named = []
  for await (const { event, value } of events) {
    if (value !== undefined) named.push([event, value])
    if (event === 'disconnect') break
  }
  assert.deepEqual(named.slice(0, 3), [
    ['accountsChanged', [wallet.accounts[1]]],
    ['chainChanged', '0xa'],
    ['accountsChanged', []],
  ])
})

test('a rule that cannot be read is named, and the rules before stay', async () => {
  await wallet.setRules({ personal_sign: 'reject' })

  await assert.rejects(wallet.setRules({ personal_sign: 'maybe' }), (error) => error instanceof RefusedError)

  await connect()
  assert.equal((await sign()).error.code, 4001)
})

test('a session that is asked for is decided by the test', async () => {
  const asking = await bridge.wallet({ session: 'ask' })
  const connected = asking.request({ method: 'eth_requestAccounts', origin: ORIGIN })
  let session
  while (!session) [session] = await asking.sessions()

  await session.approve()

  assert.deepEqual((await connected).result, asking.accounts)
  await asking.stop()
  await assert.rejects(asking.calls(), /does not answer/)
})

test('a wallet with a rule that cannot be read does not start', () =>
  assert.rejects(bridge.wallet({ on: { personal_sign: 'maybe' } }), /did not start: .*\n.*maybe/s))

test('an option that a wallet does not have is named', () =>
  assert.rejects(bridge.wallet({ acounts: 1 }), /no option acounts/))

test('a URI of no generation is refused', () =>
  assert.rejects(wallet.pair('wc:nothing'), (error) => error.status === 400))

test('a page without a QR code is given up', () =>
  assert.rejects(wallet.scan({ screenshot: async () => PIXEL }, { timeout: 0 }), /no QR code|zxing/))

test('the published client pairs by URI, and its call is signed', { skip: withoutClient }, async () => {
  const { dapp, uri, connected } = await newDapp(bridge)

  const session = await wallet.pair(uri)
  await connected

  assert.deepEqual([session.generation, session.dapp.name], ['1.x', 'Example'])
  assert.match(await dapp.signPersonalMessage([HELLO, wallet.accounts[0]]), /^0x[0-9a-f]{130}$/)
  await session.disconnect()
})

// A picture of one white pixel.
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==',
  'base64'
)
