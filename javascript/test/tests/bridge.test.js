import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'

import { connectBridge, RefusedError, startBridge } from '../source/index.js'

let bridge

before(async () => {
  bridge = await startBridge({ settings: { session_ttl: 60 }, devAccounts: true })
})
beforeEach(() => bridge.reset())
after(() => bridge.stop())

async function newSession() {
  const answer = await fetch(`${bridge.url}/session/new`, { method: 'POST' })
  return (await answer.json()).sessionId
}

const putSession = (id) =>
  fetch(`${bridge.url}/session/${id}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ encryptionPayload: { data: 'd', hmac: 'h', iv: 'i' } }),
  })

test('the wallet has the development accounts', () => {
  assert.equal(bridge.accounts.length, 10)
  assert.match(bridge.accounts[0], /^0xf39fd6e5/i)
})

test('a session ends by the setting, once the clock has moved', async () => {
  const id = await newSession()

  await bridge.clock.advance({ minutes: 1, seconds: 1 })

  assert.equal((await putSession(id)).status, 404)
})

test('the clock is set, and frozen', async () => {
  const state = await bridge.clock.set(new Date('2030-01-01T00:00:00Z'), { frozen: true })

  assert.equal(state.frozen, true)
  assert.equal((await bridge.clock.now()).toISOString(), '2030-01-01T00:00:00.000Z')
})

test('a reset empties the server and sets the clock back', async () => {
  const id = await newSession()
  await bridge.clock.advance({ weeks: 1 })
  await bridge.faults.set([{ where: 'request', route: 'open-session', status: 503 }])

  await bridge.reset()

  assert.deepEqual(await bridge.faults.list(), [])
  assert.ok(Math.abs((await bridge.clock.now()) - Date.now()) < 3_600_000)
  assert.equal((await putSession(id)).status, 404)
})

test('a fault strikes as often as its rule says', async () => {
  await bridge.faults.set([
    { where: 'request', route: 'open-session', status: 503, retry_after: 1, times: 1 },
  ])

  const statuses = []
  for (const _ of [1, 2]) statuses.push((await fetch(`${bridge.url}/session/new`, { method: 'POST' })).status)

  assert.deepEqual(statuses, [503, 200])
  assert.deepEqual(
    (await bridge.faults.list()).map(({ hits }) => hits),
    [1]
  )
  await bridge.faults.clear()
  assert.deepEqual(await bridge.faults.list(), [])
})

test('the requests that the server answered are listed', async () => {
  await newSession()

  const requests = await bridge.traffic({ wait: 5 })

  assert.ok(
    requests.some(({ method, path, status }) => [method, path, status].join(' ') === 'POST /session/new 200')
  )
})

test('what went out is there until it is forgotten', async () => {
  assert.deepEqual(await bridge.sent({ channel: 'fcm' }), [])
  await bridge.forgetSent()
})

test('a second test process reaches the server by its address and token', async () => {
  const second = await connectBridge({ url: `${bridge.url}/`, testToken: bridge.testToken })

  await second.clock.advance({ days: 1 })

  assert.deepEqual(second.accounts, bridge.accounts)
  assert.ok((await bridge.clock.now()) - Date.now() > 3_600_000)
  await second.stop()
  await bridge.reset()
})

test('a wrong token is refused, with the words of the server', async () => {
  const stranger = await connectBridge({ url: bridge.url, testToken: 'wrong' })

  await assert.rejects(stranger.reset(), (error) => error instanceof RefusedError && error.status === 401)
})

test('a rule that cannot be read is refused, and says where', async () => {
  await assert.rejects(bridge.faults.set([{ where: 'moon', status: 503 }]), /#\/0\/where/)
})
