import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { RefusedError, startBridge } from '../source/index.js'
import { newDapp, withoutClient } from './published_clients.js'

const ORIGIN = 'https://dapp.example'
const HELLO = '0x68656c6c6f'

let bridge

before(async () => {
  bridge = await startBridge()
})
after(() => bridge?.stop())

async function withWallet(options, work) {
  const wallet = await bridge.wallet(options)
  try {
    await work(wallet)
  } finally {
    await wallet.stop()
  }
}

const connect = (wallet) => wallet.request({ method: 'eth_requestAccounts', origin: ORIGIN })
const sign = (wallet) =>
  wallet.request({ method: 'personal_sign', params: [HELLO, wallet.accounts[0]], origin: ORIGIN })

test('a page is given the accounts, and its calls are answered by rules', () =>
  withWallet({ on: { personal_sign: ['approve*1', 'reject'] }, accounts: [1] }, async (wallet) => {
    assert.deepEqual((await connect(wallet)).result, wallet.accounts)
    assert.match(wallet.accounts[0], /^0x70997970/i)

    assert.match((await sign(wallet)).result, /^0x[0-9a-f]{130}$/)
    assert.equal((await sign(wallet)).error.code, 4001)
  }))

test('a call that is asked for waits for the test', () =>
  withWallet({ policy: 'ask' }, async (wallet) => {
    await connect(wallet)
    const answers = [sign(wallet), sign(wallet), sign(wallet)]

    let calls = []
    while (calls.length < 3)
      calls = await wallet.calls({ state: 'pending', method: 'personal_sign', wait: 5 })
    const [first, second, third] = calls
    await first.approve()
    await second.reject({ code: 4100, message: 'not today' })
    await third.answer('0x1234')

    assert.equal(first.text, 'hello')
    assert.equal(first.state, 'answered')
    const [approved, rejected, answered] = await Promise.all(answers)
    assert.match(approved.result, /^0x/)
    assert.deepEqual(rejected.error, { code: 4100, message: 'not today' })
    assert.deepEqual(answered, { result: '0x1234' })
  }))

test('rules are replaced, and a reset brings back those of the start', () =>
  withWallet({ on: { personal_sign: 'reject' } }, async (wallet) => {
    assert.deepEqual(await wallet.setRules({ personal_sign: 'answer:"0x"' }), ['personal_sign=answer:"0x"'])
    await connect(wallet)
    assert.deepEqual(await sign(wallet), { result: '0x' })

    await wallet.reset()

    assert.deepEqual([await wallet.sessions(), await wallet.calls()], [[], []])
    await connect(wallet)
    assert.equal((await sign(wallet)).error.code, 4001)
  }))

test('a session changes its account and its chain, and ends', () =>
  withWallet({ accounts: [0, 1], chainId: 31337 }, async (wallet) => {
    const events = await wallet.events()
    await connect(wallet)
    const [session] = await wallet.sessions()

    await session.switchAccount(1)
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
  }))

test('a session that is asked for is decided by the test', () =>
  withWallet({ session: 'ask' }, async (wallet) => {
    const connected = connect(wallet)
    let session
    while (!session) [session] = await wallet.sessions()

    await session.approve()

    assert.deepEqual((await connected).result, wallet.accounts)
  }))

test('a rule that cannot be read is named, and the rules before stay', () =>
  withWallet({ on: { personal_sign: 'reject' } }, async (wallet) => {
    await assert.rejects(
      wallet.setRules({ personal_sign: 'maybe' }),
      (error) => error instanceof RefusedError
    )

    await connect(wallet)
    assert.equal((await sign(wallet)).error.code, 4001)
  }))

test('a wallet with a rule that cannot be read does not start', () =>
  assert.rejects(bridge.wallet({ on: { personal_sign: 'maybe' } }), /did not start: .*\n.*maybe/s))

test('an option that a wallet does not have is named', () =>
  assert.rejects(bridge.wallet({ acounts: 1 }), /no option acounts/))

test('a URI of no generation is refused', () =>
  withWallet({}, (wallet) => assert.rejects(wallet.pair('wc:nothing'), (error) => error.status === 400)))

test('a page without a QR code is given up', () =>
  withWallet({}, async (wallet) => {
    const page = { screenshot: async () => PIXEL }

    await assert.rejects(wallet.scan(page, { timeout: 0 }), /no QR code/)
  }))

test('the published client pairs by URI, and its call is signed', { skip: withoutClient }, () =>
  withWallet({}, async (wallet) => {
    const { dapp, uri, connected } = await newDapp(bridge)

    const session = await wallet.pair(uri)
    await connected

    assert.deepEqual([session.generation, session.dapp.name], ['1.x', 'Example'])
    assert.match(await dapp.signPersonalMessage([HELLO, wallet.accounts[0]]), /^0x[0-9a-f]{130}$/)
    await session.disconnect()
  })
)

test('a wallet that nobody listens to any more is named', async () => {
  const wallet = await bridge.wallet()
  await wallet.stop()

  await assert.rejects(wallet.calls(), /does not answer/)
})

// A picture of one white pixel.
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==',
  'base64'
)
