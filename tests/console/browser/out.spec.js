// The pages of what goes out, and of the settings: Wallet, Webhooks, Pushes, Settings.

import { expect, test } from '@playwright/test'
import { expectNoFault, open, server, signIn } from './window.js'

const ACCOUNT = '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'
const PATHS = [
  '/wallet', '/wallet/transactions', '/wallet/signatures', '/webhooks', '/webhooks/attempts', '/pushes', '/pushes/attempts',
  '/pushes/preview?peer_name=Shop&language=ar', '/settings', '/traffic', '/sessions',
]

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

// The request is answered once somebody has decided.
function asks(page, text) {
  const params = [`0x${Buffer.from(text).toString('hex')}`, ACCOUNT]
  const url = `${server().url}/rpc`
  return page.request.post(url, { data: { jsonrpc: '2.0', id: 1, method: 'personal_sign', params } }).then((answer) => answer.json())
}

test('a request appears while the page is looked at, is read, and is approved', async ({ page }) => {
  await signIn(page, '/wallet')
  await expect(page.getByRole('heading', { name: 'Wallet' })).toBeVisible()
  const waiting = page.getByRole('cell', { name: 'waits' })
  const before = await waiting.count()
  const signed = asks(page, 'Pay <b>nobody</b>\u202e')
  await expect(waiting).toHaveCount(before + 1)
  await page.getByRole('link', { name: /personal_sign/ }).first().click()
  await expect(page.getByText('Pay <b>nobody</b><U+202E>')).toBeVisible()
  await page.getByRole('button', { name: 'Approve' }).click()
  await expect(page.getByRole('status')).toContainText('The request is approved')
  await expect(page.getByRole('button', { name: 'Approve' })).toHaveCount(0)
  expect((await signed).result).toMatch(/^0x/)
  await page.getByRole('link', { name: 'Signatures' }).click()
  await expect(page.getByRole('rowheader')).not.toHaveCount(0)
})

test('what waits for a person is rejected in its row of the traffic', async ({ page }) => {
  await signIn(page, '/traffic')
  const rows = page.getByRole('row', { name: /personal_sign of .*: waits for approval/ })
  const before = await rows.count()
  const signed = asks(page, 'in the row')
  await expect(rows).toHaveCount(before + 1)
  await expect(rows.first()).toContainText(/waits \d/)
  await rows.first().getByRole('button', { name: 'Reject' }).click()
  await expect(page.getByRole('status').first()).toContainText('personal_sign is rejected.')
  expect((await signed).error.code).toBe(4001)
  await expect(page.getByRole('row', { name: /approval .*The request was rejected/ }).first()).toBeVisible()
})

test('a choice in a drop-down acts at once', async ({ page }) => {
  await signIn(page, '/webhooks')
  await page.getByLabel('State').selectOption('dead-lettered')
  await expect(page).toHaveURL(/state=dead/)
  await expect(page.getByLabel('State')).toHaveValue('dead')
})

test('an account is unlocked with its passphrase, and locked', async ({ page }) => {
  await signIn(page, '/wallet')
  await page.getByLabel('Passphrase').fill('wrong')
  await page.getByRole('button', { name: 'Unlock' }).click()
  await expect(page.getByRole('alert')).toContainText('does not open the account')
  await expect(page.getByLabel('Passphrase')).toHaveValue('')
  await page.getByLabel('Passphrase').fill('a passphrase')
  await page.getByRole('button', { name: 'Unlock' }).click()
  await expect(page.getByRole('status')).toContainText('is unlocked until')
  await page.getByRole('button', { name: /^Lock 0x/ }).click()
  await expect(page.getByRole('status')).toContainText('is locked.')
})

test('a webhook that failed is opened, sent now, and tested', async ({ page }) => {
  await signIn(page, '/webhooks')
  await page.getByRole('link', { name: 'https://app.example:443' }).click()
  await expect(page.getByText('the receiver answered 503').first()).toBeVisible()
  await page.getByRole('button', { name: 'Send now' }).click()
  await expect(page.getByRole('status')).toContainText('The message is sent now.')
  await page.getByLabel('URL').fill('https://app.example/hook')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await expect(page.getByRole('status')).toContainText('did not take the test: the receiver answered 503')
  await page.getByRole('link', { name: 'Last attempts' }).click()
  await expect(page.getByRole('cell', { name: /webhook-test/ }).first()).toBeVisible()
})

test('a push is tested, and seen as on a phone', async ({ page }) => {
  await signIn(page, '/pushes')
  await page.getByLabel('Topic').fill('a-topic-of-the-browser')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await expect(page.getByRole('status')).toContainText('The push was taken')
  await page.getByRole('link', { name: 'Last attempts' }).click()
  await expect(page).toHaveURL(/pushes\/attempts/)
  await page.getByRole('rowheader').getByRole('link').first().click()
  await expect(page.getByRole('group', { name: 'Preview' })).toContainText('Neue Anfrage von Shop')
  await page.getByRole('link', { name: 'Preview', exact: true }).click()
  await page.getByLabel('Name of the peer').fill('Boutique')
  await page.getByLabel('Language').fill('fr-CA')
  await page.getByRole('button', { name: 'Show' }).click()
  await expect(page.getByRole('group', { name: 'Preview' })).toContainText('Nouvelle demande envoyée par Boutique')
})

test('a setting is found', async ({ page }) => {
  await signIn(page, '/settings')
  await page.getByLabel('Name or source').fill('max_wait')
  await page.getByRole('button', { name: 'Search' }).click()
  await expect(page.getByRole('rowheader')).toHaveText(['max_wait'])
  await expect(page.getByRole('cell', { name: 'by SIGHUP' })).toBeVisible()
})

test('the keyboard alone opens and rejects a request', async ({ page }) => {
  await signIn(page, '/wallet')
  const waiting = page.getByRole('cell', { name: 'waits' })
  const before = await waiting.count()
  const signed = asks(page, 'by keyboard')
  await expect(waiting).toHaveCount(before + 1)
  await tabTo(page, (element) => element.href?.includes('/wallet/approvals/'))
  await page.keyboard.press('Enter')
  await expect(page.getByText('by keyboard')).toBeVisible()
  await tabTo(page, (element) => element.textContent === 'Reject')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('status')).toContainText('The request is rejected.')
  expect((await signed).error.code).toBe(4001)
})

async function tabTo(page, wanted) {
  for (let steps = 0; steps < 60; steps += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`(${wanted})(document.activeElement)`)) return
  }
  throw new Error('the keyboard does not reach it')
}

test('without JavaScript a webhook is tested and an account is locked', async ({ browser }) => {
  const context = await browser.newContext({ javaScriptEnabled: false })
  const page = await context.newPage()
  await signIn(page, '/webhooks')
  await page.getByLabel('URL').fill('https://app.example/hook')
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await expect(page.getByRole('status')).toContainText('did not take the test')
  await open(page, '/wallet')
  await page.getByLabel('Passphrase').fill('a passphrase')
  await page.getByRole('button', { name: 'Unlock' }).click()
  await page.getByRole('button', { name: /^Lock 0x/ }).click()
  await expect(page.getByRole('status')).toContainText('is locked.')
  await context.close()
})

test('pages have no fault', async ({ page }) => {
  await signIn(page, '/wallet')
  const details = []
  for (const list of ['/wallet', '/webhooks', '/pushes/attempts']) {
    await open(page, list)
    const link = page.getByRole('rowheader').getByRole('link').first()
    details.push(new URL(await link.evaluate((element) => element.href)).pathname.replace('/console', ''))
  }
  for (const path of [...PATHS, ...details]) {
    await open(page, path)
    await expectNoFault(page, path)
  }
})
