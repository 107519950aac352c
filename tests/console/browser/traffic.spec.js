// Traffic, sessions and clients in a real browser: live rows, payloads that are opened in the page, and what axe-core
// finds.

import { createDecipheriv } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from '@playwright/test'
import { expectNoFault, open, server, signIn } from './window.js'

const readJson = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'))
const sealed = readJson('./sealed.json')

async function send(method, path, document) {
  const answer = await fetch(server().url + path, {
    method, headers: { 'Content-Type': 'application/json' }, body: document && JSON.stringify(document),
  })
  return answer.status === 200 ? answer.json() : answer.status
}

const openSession = async () => (await send('POST', '/session/new')).sessionId
const pairing = (sessionId, key = sealed.key) => `wc:${sessionId}@1?bridge=${encodeURIComponent(server().url)}&key=${key}`

/** A session with a call that waits, opened in the page; returns the ids. */
async function openedCall(page, payload = sealed.call) {
  const sessionId = await openSession()
  const { callId } = await send('POST', `/session/${sessionId}/call/new`, { encryptionPayload: payload, dappName: 'Dapp' })
  await open(page, `/traffic?filter=call:${callId}`)
  await page.getByRole('link', { name: /call\/new/ }).click()
  await expect(page.getByLabel('Pairing URI')).toBeVisible()
  return { sessionId, callId }
}

async function decrypt(page, uri) {
  await page.getByLabel('Pairing URI').fill(uri)
  await page.getByRole('button', { name: 'Open', exact: true }).click()
}

/** The status that the dapp reads of its call. */
async function statusOf(callId) {
  const { encryptionPayload } = await send('GET', `/call-status/${callId}`)
  const cipher = createDecipheriv('aes-256-cbc', Buffer.from(sealed.key, 'hex'), Buffer.from(encryptionPayload.iv, 'hex'))
  return JSON.parse(cipher.update(encryptionPayload.data, 'hex', 'utf8') + cipher.final('utf8')).data
}

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

test('rows come while they are looked at, and a waiting poll is completed in its place', async ({ page }) => {
  await signIn(page)
  const sessionId = await openSession()
  await open(page, `/traffic?filter=session:${sessionId.slice(0, 8)}`)
  const poll = send('GET', `/session/${sessionId}?wait=120`)
  const row = page.getByRole('row', { name: /GET .*wait=120/ })
  await expect(row).toContainText(/waits \d+\.\d s/)
  const id = await row.getAttribute('id')

  await send('PUT', `/session/${sessionId}`, { encryptionPayload: 'x' })
  await poll

  await expect(row).toContainText('waited')
  expect(await row.getAttribute('id')).toBe(id)
  await expect(page.locator('live-traffic tbody tr')).toHaveCount(3)
  await expect(page.locator('live-traffic tbody tr').first()).toContainText('PUT')
})

test('a filter and its buttons choose, also of what comes', async ({ page }) => {
  await signIn(page, '/traffic')
  await page.getByRole('link', { name: 'errors' }).click()
  await expect(page).toHaveURL(/only=errors/)
  await page.getByLabel('Filter').fill('route:nothing-of-this-kind')
  await page.keyboard.press('Enter')
  await expect(page.locator('[name=filter][value="route:nothing-of-this-kind"]')).toBeVisible()
  await expect(page.getByText('No request passes the filter.')).toBeVisible()
  await page.getByLabel('Filter').fill('-status:405')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/status(:|%3A)405/)
  await expect(page).toHaveURL(/only=errors/)
  await send('GET', '/info')
  await send('GET', '/is-missing')
  await expect(page.getByRole('row', { name: /is-missing/ })).toBeVisible()
  await expect(page.getByRole('link', { name: 'GET /info' })).toHaveCount(0)
})

test('a paused list waits, and goes on where it was', async ({ page }) => {
  await signIn(page, '/traffic')
  await page.getByRole('button', { name: 'pause' }).click()
  await expect(page.getByRole('button', { name: 'pause' })).toHaveAttribute('aria-pressed', 'true')
  await send('GET', '/while-paused')
  await page.getByRole('button', { name: 'pause' }).click()
  await expect(page.getByRole('row', { name: /while-paused/ })).toBeVisible()
})

test('a request opens beside the list, which stays live, and back closes it', async ({ page }) => {
  await signIn(page, '/traffic')
  await send('GET', '/opened-beside')
  await page.getByRole('link', { name: 'GET /opened-beside' }).click()
  await expect(page.getByRole('heading', { name: 'GET /opened-beside' })).toBeVisible()
  await expect(page).toHaveURL(/traffic\/\d+/)
  await expect(page).toHaveTitle(/opened-beside/)
  await send('GET', '/came-later')
  await page.getByRole('link', { name: 'GET /came-later' }).click()
  await expect(page.getByRole('heading', { name: 'GET /came-later' })).toBeVisible()
  await expect(page.locator('tr.open')).toHaveCount(1)
  await page.goBack()
  await expect(page.getByRole('heading', { name: 'GET /opened-beside' })).toBeVisible()
  await page.goBack()
  await expect(page.locator('.detail')).toHaveCount(0)
})

test('a payload is opened in the page, and its key never leaves it', async ({ page, context }) => {
  await signIn(page)
  const sent = []
  context.on('request', (request) => sent.push(`${request.url()} ${request.postData() ?? ''} ${JSON.stringify(request.headers())}`))
  const { sessionId, callId } = await openedCall(page)
  await decrypt(page, pairing(sessionId))
  await expect(page.locator('.opened')).toContainText('personal_sign')
  await expect(page.getByText('Opened: the content is below the payload.')).toBeVisible()

  await page.getByRole('button', { name: 'Reject 4001' }).click()
  await expect(page.getByText('The call is answered.')).toBeVisible()
  await page.getByRole('link', { name: /POST .call-status/ }).click()
  await expect(page.locator('.opened')).toContainText('4001')  // the page knows the key of this session

  expect(sent.some((each) => each.includes(callId))).toBe(true)
  expect(sent.filter((each) => each.includes(sealed.key))).toEqual([])
})

test('a wrong key, a text that is none, and texts of strangers', async ({ page }) => {
  await signIn(page)
  await openedCall(page, sealed.hostile)
  await decrypt(page, '00'.repeat(32))
  await expect(page.getByText('sealed with another key')).toBeVisible()
  await decrypt(page, 'nonsense')
  await expect(page.getByText('neither a pairing URI with its key')).toBeVisible()
  await decrypt(page, sealed.key)
  await expect(page.locator('.opened')).toContainText('<img src=x onerror=')
  await expect(page.locator('.opened')).toContainText('<U+202E>')
  expect(await page.evaluate(() => window.hacked)).toBe(undefined)
})

test('payloads of every generation are opened as the published clients sealed them', async ({ page }) => {
  await signIn(page, '/traffic')
  const cases = [
    ...readJson('./clients_v07.json').payloads.map((each) => [each, '0.7']),
    ...readJson('./clients_v1.json').payloads.map((each) => [each, '1']),
    ...readJson('./clients_v2.json').envelopes.map((each) => [{ ...each, key: each.symKey, payload: each.envelope }, '2']),
  ]
  for (const [{ key, content, payload }, generation] of cases) {
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload)
    const opened = await page.evaluate(([text, key]) => customElements.get('payload-opener').open(text, key), [text, key])
    expect(opened).toEqual({ generation, content })
    if (generation === '2') continue
    const again = await page.evaluate(
      ([content, key, generation, iv]) => customElements.get('payload-opener').seal(content, key, generation, iv),
      [content, key, generation, payload.iv],
    )
    expect(await page.evaluate(([text, key]) => customElements.get('payload-opener').open(text, key), [JSON.stringify(again), key]))
      .toEqual({ generation, content })
  }
  expect(cases.length).toBeGreaterThan(8)
})

test('a payload of generation 2.x that was copied from elsewhere is opened, and a changed one is not', async ({ page }) => {
  await signIn(page, '/traffic')
  const { symKey, envelope } = readJson('./clients_v2.json').envelopes[0]
  await send('GET', '/no-payload')
  await page.getByRole('link', { name: 'GET /no-payload' }).click()
  await page.getByText('Open a payload that you have').click()
  await page.getByLabel('Payload', { exact: true }).fill(envelope)
  await decrypt(page, `wc:${'ab'.repeat(32)}@2?relay-protocol=irn&symKey=${symKey}&expiryTimestamp=1`)
  await expect(page.locator('.opened')).toContainText('"result": true')
  await page.getByLabel('Payload', { exact: true }).fill(`AK${envelope.slice(2)}`.replace('R', 'S'))
  await decrypt(page, symKey)
  await expect(page.getByText('sealed with another key')).toBeVisible()
  await expect(page.locator('.opened')).toHaveCount(0)
})

test("a call is approved with what this server's wallet answers, or with a result of one's own", async ({ page }) => {
  await signIn(page)
  const first = await openedCall(page)
  await expect(page.getByRole('button', { name: 'Approve' })).toBeDisabled()
  await decrypt(page, pairing(first.sessionId))
  await page.getByRole('button', { name: 'Approve' }).click()
  await expect(page.getByText('The call is answered.')).toBeVisible()
  expect(await statusOf(first.callId)).toMatchObject({ id: 7, jsonrpc: '2.0', approved: true, result: /^0x[0-9a-f]{130}$/ })

  const second = await openedCall(page)
  await decrypt(page, pairing(second.sessionId))
  await page.getByText('Answer…').click()
  await page.getByLabel('Result, as JSON').fill('{"my": [')
  await page.getByRole('button', { name: 'Send' }).click()
  await expect(page.getByText('Nothing was answered.')).toBeVisible()
  await page.getByLabel('Result, as JSON').fill('{"my": ["own"]}')
  await page.getByRole('button', { name: 'Send' }).click()
  await expect(page.getByText('The call is answered.')).toBeVisible()
  expect(await statusOf(second.callId)).toEqual({ id: 7, jsonrpc: '2.0', result: { my: ['own'] }, approved: true })
})

test('a request is copied as curl', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await signIn(page, '/traffic')
  await send('GET', '/copied')
  await page.getByRole('link', { name: 'GET /copied' }).click()
  await page.getByRole('button', { name: 'Copy as curl' }).click()
  await expect(page.getByText('Copied.')).toBeVisible()
  const copied = await page.evaluate(() => navigator.clipboard.readText())
  expect(copied).toContain(`curl -gisS -X GET ${server().url}/copied`)
})

test('a session is opened, its pairing drawn, and it is ended', async ({ page }) => {
  await signIn(page, '/traffic')
  const sessionId = await openSession()
  await page.getByRole('link', { name: 'Sessions' }).click()
  await expect(page.getByRole('heading', { name: 'Sessions' })).toBeVisible()
  await page.getByRole('rowheader').getByRole('link', { name: sessionId.slice(0, 8) }).first().click()
  await expect(page.getByRole('heading', { name: 'Timeline' })).toBeVisible()
  await page.getByLabel('Pairing URI').fill(pairing(sessionId))
  await page.getByRole('button', { name: 'Draw' }).click()
  await expect(page.getByRole('img', { name: 'QR code of the pairing URI' })).toBeVisible()
  page.once('dialog', (dialog) => dialog.accept())
  await page.getByRole('button', { name: 'End the session' }).click()
  await expect(page.getByRole('status').filter({ hasText: 'The session is ended' })).toBeVisible()
  expect(await send('GET', `/session/${sessionId}`)).toBe(404)
})

test('the keyboard alone opens a client and a request, also without JavaScript', async ({ browser, page }) => {
  await signIn(page, '/traffic')
  await page.getByRole('link', { name: 'Clients and limits' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: '127.0.0.1' }).focus()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: '127.0.0.1' })).toBeVisible()

  const context = await browser.newContext({ javaScriptEnabled: false, storageState: await page.context().storageState() })
  const plain = await context.newPage()
  await send('GET', '/plain-page')
  await open(plain, '/traffic')
  await plain.getByRole('link', { name: 'GET /plain-page' }).focus()
  await plain.keyboard.press('Enter')
  await expect(plain.getByRole('heading', { name: 'GET /plain-page' })).toBeVisible()
  await expect(plain.getByLabel('Pairing URI')).toBeHidden()
  await expect(plain.getByRole('button', { name: 'pause' })).toBeHidden()
  await context.close()
})

test('pages have no fault', async ({ page }) => {
  await signIn(page)
  const { sessionId } = await openedCall(page)
  await decrypt(page, pairing(sessionId))
  await expect(page.locator('.opened')).toBeVisible()
  for (const place of ['', '/traffic', '/traffic?only=waits', '/sessions', '/clients', '/clients/127.0.0.1']) {
    if (place) await open(page, place)
    for (const summary of await page.locator('summary').all()) await summary.click()
    await expectNoFault(page, place || 'a request')
  }
  await open(page, '/sessions')
  await page.locator('#list th a').first().click()
  await expect(page.getByRole('heading', { name: 'Timeline' })).toBeVisible()
  await expectNoFault(page, 'a session')
})

test('no more than 500 rows stay, and the open one is among them', async ({ page }) => {
  await signIn(page, '/traffic')
  await send('GET', '/stays-open')
  await page.getByRole('link', { name: 'GET /stays-open' }).click()
  await expect(page.locator('tr.open')).toContainText('stays-open')
  const rows = page.locator('live-traffic tbody tr') // a role would be looked for in every row, each time
  const newest = rows.first().getByRole('link')
  for (let shown = await rows.count(); shown <= 520; shown += 51) {
    await Promise.all(Array.from({ length: 50 }, () => send('GET', '/info')))
    await send('GET', `/ends-batch-${shown}`)
    await expect(newest).toHaveText(`GET /ends-batch-${shown}`)
  }
  await send('GET', '/the-last-one')
  await expect(newest).toHaveText('GET /the-last-one')
  await expect.poll(() => rows.count()).toBeLessThanOrEqual(501)
  expect(await rows.count()).toBeGreaterThan(200)
  await expect(page.locator('tr.open')).toContainText('stays-open')

  const headers = { Authorization: `Bearer ${server().testToken}` } // every list is short again for the next test
  expect((await fetch(`${server().url}/_test/reset`, { method: 'POST', headers })).status).toBe(200)
})
