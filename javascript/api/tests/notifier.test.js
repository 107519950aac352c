import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { after, before, beforeEach, test } from 'node:test'

import { BridgeUnreachableError, Notifier, RequestRefusedError } from '@bridge-server/api'

const { startBridge } = await import(process.env.BRIDGE_TEST_PACKAGE ?? '../../test/source/index.js')

const TOKEN = 'of the operator'
const TEXT = { type: 'news', title: 'ETH is up ☂ 🚀', body: 'مرحبا' }
let bridge
let secret
let notifier

const account = (number) => `eip155:1:0x${String(number).padStart(40, '0')}`
const accounts = (count) => Array.from({ length: count }, (_, place) => account(place + 1))

async function operate(method, path, fields) {
  const answer = await fetch(`${bridge.url}/admin/projects${path}`, {
    method,
    headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json' },
    body: fields && JSON.stringify(fields),
  })
  assert.equal(answer.ok, true, await answer.clone().text())
  return answer.json()
}

async function subscribe(count) {
  for (const each of accounts(count)) await operate('PUT', `/app/subscribers/${each}`, {})
}

async function all(walk, onWait = async () => {}) {
  const seen = []
  for await (const each of walk) {
    seen.push(each)
    if (each.waits) await onWait(each)
  }
  return seen
}

const fault = (fault) => bridge.faults.set([{ where: 'request', ...fault }])

before(async () => {
  bridge = await startBridge({ settings: { admin_token: TOKEN } })
})

after(() => bridge.stop())

beforeEach(async () => {
  await bridge.reset()
  ;({ secret: { secret } } = await operate('POST', '', { name: 'App', project_id: 'app' }))
  await operate('POST', '/app/types', { name: 'News', type_id: 'news' })
  notifier = new Notifier(`${bridge.url}/`, 'app', secret)
})

test('the result has each account once', async () => {
  await subscribe(1)

  const result = await notifier.notify({ ...TEXT, to: [account(1), account(2)], url: 'https://a.example/é' })
  const rehearsed = await notifier.notify({ ...TEXT, to: [account(1)], dryRun: true })

  assert.deepEqual(result, { sent: [account(1)], failed: [], notFound: [account(2)] })
  assert.deepEqual(rehearsed.sent, [account(1)])
  const { notifications } = await operate('GET', '/app/notifications')
  assert.deepEqual(notifications.map(({ title }) => title), [TEXT.title])
})

test('subscribers and lookup', async () => {
  await subscribe(130)

  assert.deepEqual(await all(notifier.subscribers({ after: account(120) })), accounts(130).slice(120))
  const found = await notifier.lookup(accounts(140))

  assert.deepEqual([...found.keys()], accounts(130))
  assert.deepEqual(found.get(account(1)), { account: account(1), notificationTypes: ['news'] })
})

test('a walk reaches everybody, waits out limits and failures, and can be repeated', async () => {
  await subscribe(3)
  const to = [...accounts(3), ...Array.from({ length: 1100 }, (_, place) => `test:chain:${place}`)]
  const walk = notifier.notifyAll({ ...TEXT, to })
  const [first, known] = [(await walk.next()).value, (await walk.next()).value]
  await fault({ route: 'notify', status: 503, retry_after: 0, times: 2 })
  const seen = await all(walk)
  await fault({ route: 'notify-audience', status: 429, retry_after: 0, times: 2 })
  const again = await all(notifier.notifyAll({ ...TEXT, id: first.id }))

  assert.equal(first.total, undefined)
  assert.deepEqual([known.id, known.total, known.accounts], [first.id, 1103, 0])
  assert.equal(seen.filter(({ waits }) => waits > 0).length, 2)
  assert.deepEqual(seen.filter(({ result }) => result).map(({ accounts }) => accounts), [500, 1000, 1103])
  assert.deepEqual([seen.at(-1).sent, seen.at(-1).notFound], [3, 1100])
  assert.deepEqual([again.at(-1).sent, again.at(-1).total], [3, 3])
  const { notifications } = await operate('GET', '/app/notifications')
  assert.deepEqual(notifications.map(({ figures }) => figures.sent), [3])
})

test('an interrupted walk goes on behind its last account', async () => {
  await subscribe(3)
  const seen = await all(notifier.notifyAll({ ...TEXT, id: 'walk', after: account(1) }))

  assert.deepEqual([seen[1].total, seen.at(-1).sent, seen.at(-1).after], [undefined, 2, account(3)])
})

test('nothing is listed for a send, and a wrong type is refused before anything waits', async () => {
  await subscribe(3)
  await fault({ route: 'subscriber-listing', status: 429, retry_after: 3600, times: 100 })

  for (let walk = 0; walk < 4; walk += 1) {
    const seen = await all(notifier.notifyAll(TEXT))
    assert.deepEqual([seen.at(-1).sent, seen.at(-1).total], [3, 3])
    assert.ok(seen.every(({ waits }) => waits === 0))
  }
  await assert.rejects(all(notifier.notifyAll({ ...TEXT, type: 'weather' })), (error) => {
    return error instanceof RequestRefusedError && /#\/notification\/type/.test(error.message)
  })
})

test('a program that is killed half-way is taken up again, and nobody gets it twice', async () => {
  await subscribe(600)
  const program = `
    import { Notifier } from '@bridge-server/api'
    const [url, secret, text] = process.argv.slice(1)
    for await (const { accounts } of new Notifier(url, 'app', secret).notifyAll({ ...JSON.parse(text), id: 'walk' })) {
      console.log(accounts)
      if (accounts === 500) await new Promise(() => setInterval(() => {}, 1000))
    }`
  const child = spawn(process.execPath, [
    '--input-type=module', '--eval', program, bridge.url, secret, JSON.stringify(TEXT),
  ], { cwd: import.meta.dirname ?? new URL('.', import.meta.url).pathname })
  for await (const line of createInterface(child.stdout)) if (line === '500') break
  child.kill('SIGKILL')
  await fault({ route: 'notify-audience', drop: true, times: 1 })

  const seen = await all(notifier.notifyAll({ ...TEXT, id: 'walk' }))

  assert.deepEqual([seen.at(-1).sent, seen.at(-1).total, seen.at(-1).after], [600, 600, account(600)])
  const { notifications } = await operate('GET', '/app/notifications')
  assert.deepEqual(notifications.map(({ figures }) => figures.sent), [600])
})

test('only what is safe is sent again', async () => {
  await subscribe(1)
  await fault({ route: 'notify', status: 500, times: 1 })
  await assert.rejects(notifier.notify({ ...TEXT, to: [account(1)] }), (error) => {
    return error instanceof BridgeUnreachableError && error.mayHaveSent && /may have taken/.test(error.message)
  })

  await fault({ route: 'notify', status: 500, times: 1 })
  assert.deepEqual((await notifier.notify({ ...TEXT, to: [account(1)], id: 'x' })).sent, [account(1)])
  await fault({ route: 'notify', drop: true, times: 1 })
  assert.deepEqual((await notifier.notify({ ...TEXT, to: [account(1)], id: 'x' })).sent, [account(1)])
  await fault({ route: 'notify', status: 503, retry_after: 0, times: 1 })
  assert.deepEqual((await notifier.notify({ ...TEXT, to: [account(1)] })).sent, [account(1)])
})

test('refusals say why, without the secret', async () => {
  const refused = (status, pattern) => (error) =>
    error instanceof RequestRefusedError && error.status === status && pattern.test(error.message) &&
    !error.message.includes(secret)
  await assert.rejects(notifier.notify({ ...TEXT, title: '', to: [account(1)] }), refused(400, /[^.]; #\/notification\/title/))
  const stranger = new Notifier(bridge.url, 'app', 'bsk_wrong')
  await assert.rejects(stranger.lookup([account(1)]), refused(401, /./))
  await assert.rejects(all(stranger.notifyAll(TEXT)), refused(401, /./))
  await fault({ route: 'notify', status: 429, retry_after: 3600, times: 1 })
  await assert.rejects(notifier.notify({ ...TEXT, to: [account(1)] }), (error) => error.retryAfter === 3600)
})

test('what cannot be sent is refused here', async () => {
  await assert.rejects(notifier.notify({ ...TEXT, to: accounts(501) }), RangeError)
  await assert.rejects(notifier.notify({ ...TEXT, to: account(1) }), TypeError)
  assert.throws(() => new Notifier(bridge.url, '../admin', secret), /project id/)
  assert.throws(() => new Notifier(bridge.url, 'app', `${secret}\n`), /secret/)
  assert.throws(() => new Notifier('ftp://bridge.example', 'app', secret), /http/)
})

test('a server that is not there is unreachable', async () => {
  const alone = new Notifier('http://127.0.0.1:9', 'app', secret, { patienceSeconds: 0.1, walkPatienceSeconds: 0.1 })

  await assert.rejects(alone.notify({ ...TEXT, to: [account(1)] }), BridgeUnreachableError)
  await assert.rejects(all(alone.subscribers()), BridgeUnreachableError)
})

/** A `fetch` that answers the listing in these pieces; an Error breaks it off. */
const answering = (...answers) => async () => {
  const [pieces, encoder] = [answers.shift(), new TextEncoder()]
  const body = new ReadableStream({
    pull(controller) {
      const piece = pieces.shift()
      if (piece === undefined) controller.close()
      else if (piece instanceof Error) controller.error(piece)
      else controller.enqueue(encoder.encode(piece))
    },
  })
  return new Response(body)
}

test('subscribers come as they arrive, and a listing that breaks off goes on behind the last one', async () => {
  const fetch = answering(['["a:', '1","a:2","a', ':3","a:', new Error('broken')], ['["a:1","a:2","a:3","a:4"]'])
  const walk = new Notifier('http://bridge.example', 'app', 'secret', { fetch }).subscribers({ after: 'a:1' })

  assert.equal((await walk.next()).value, 'a:2')
  assert.deepEqual(await all(walk), ['a:3', 'a:4'])
})

test('a listing may be empty, and must be one', async () => {
  const listing = (...pieces) => {
    return all(new Notifier('http://bridge.example', 'app', 'secret', { fetch: answering(pieces) }).subscribers())
  }
  assert.deepEqual(await listing('[', ']'), [])
  for (const text of ['{"a": 1}', '["a", 1]', '', '["a"', '["a","b"', '["a"]["b"]', '[["a","b"]]']) {
    await assert.rejects(listing(text), /no list of accounts/, text)
  }
  await assert.rejects(listing(...Array(20).fill('x'.repeat(100_000))), /no list of accounts/)
})
