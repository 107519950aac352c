// The pages of notifications in a real browser: a person's steps, the keyboard alone, and what axe-core finds.
// CONSOLE_NOTIFICATION is the path of a notification's page.

import { expect, test } from '@playwright/test'
import { expectNoFault, open, signIn } from './window.js'

const ACCOUNT = 'test:chain:reader'
const PAGES = [
  '/compose?project_id=shop', '/notifications?project_id=shop', '/analytics?project_id=shop',
  `/accounts?project_id=shop&account=${ACCOUNT}`, `/inbox?account=${ACCOUNT}`,
]

async function write(page, title) {
  await page.getByLabel('Title').fill(title)
  await page.getByLabel('Body').fill('A body')
}

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

test('a notification is written, checked, sent, and found with its accounts', async ({ page }) => {
  await signIn(page, PAGES[0])
  await write(page, 'Bread is ready \u{1f35e}')
  await expect(page.getByText('16 of 64 characters')).toBeVisible()
  await page.getByLabel('Accounts one in a line').fill(`${ACCOUNT}\ntest:chain:nobody`)
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  await expect(page.getByRole('img', { name: 'Shop: Bread is ready' })).toBeVisible()
  await page.getByRole('button', { name: 'Send to 2 accounts' }).click()
  await expect(page.getByRole('status')).toContainText('Sent to 1 account.')

  await page.getByRole('link', { name: 'Notifications of Shop' }).click()
  await page.getByRole('link', { name: 'Bread is ready' }).click()
  await expect(page.getByText('in the inbox, unread')).toBeVisible()
  await page.getByRole('link', { name: ACCOUNT }).click()
  await expect(page.getByText('Its last notifications')).toBeVisible()
  await page.getByRole('link', { name: 'Its inbox' }).click()
  await expect(page.getByRole('article', { name: 'Bread is ready' })).toBeVisible()
})

test('every fault of the form is named at its field, and what was typed stays', async ({ page }) => {
  await signIn(page, PAGES[0])
  await write(page, 'x'.repeat(65))
  await expect(page.locator('[data-counts=title]')).toHaveClass('fault')
  await page.getByLabel('URL').fill('javascript:alert(1)')
  await page.getByRole('button', { name: 'Check who would get it' }).click()

  await expect(page.getByRole('alert')).toContainText('some fields have faults')
  await expect(page.getByLabel('Title')).toHaveAccessibleDescription(/and has 65/)
  await expect(page.getByLabel('URL')).toHaveAccessibleDescription(/not safe to open/)
  await expect(page.getByLabel('Accounts one in a line')).toHaveAccessibleDescription(/must have 1 to 500 accounts/)
  await expect(page.getByLabel('Title')).toHaveValue('x'.repeat(65))
})

test('a walk through many subscribers goes on by itself, pauses, and is taken up again', async ({ page }) => {
  await signIn(page, PAGES[0])
  await write(page, 'To everybody')
  await page.getByLabel('All subscribers').check()
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  const sending = '**/compose/sendings/*'
  let steps = 0
  let answerPause
  const pauseIsAnswered = new Promise((resolve) => { answerPause = resolve })
  await page.route(sending, async (route) => {
    if (route.request().method() === 'POST') {
      steps += 1 // a step waits until it is given up
      return
    }
    await pauseIsAnswered
    await route.continue()
  })
  await page.getByRole('button', { name: 'Send to all subscribers' }).click()
  await expect.poll(() => steps).toBe(1) // the page goes on by itself
  const pause = page.waitForRequest((request) => request.method() === 'GET' && request.url().includes('/sendings/'))
  await page.getByRole('link', { name: 'Pause' }).click()
  await pause
  await page.getByRole('button', { name: 'Continue' }).click() // a step gives way to the pause that is on its way
  answerPause()
  await expect(page.getByText('It waits here until you continue.')).toBeVisible()
  expect(steps).toBe(1)
  await page.unroute(sending)
  const before = await page.getByRole('progressbar').getAttribute('value')

  await open(page, PAGES[0])
  await page.getByRole('link', { name: 'To everybody' }).click()
  await expect(page.getByRole('progressbar')).toHaveAttribute('value', before)
  await page.getByRole('button', { name: 'Continue' }).click()
  await expect(page.getByRole('status')).toContainText('Sent to 8\u00a0001 accounts.')
})

test('without JavaScript a walk goes on with a button', async ({ browser }) => {
  const context = await browser.newContext({ javaScriptEnabled: false })
  const page = await context.newPage()
  await signIn(page, PAGES[0])
  await write(page, 'Plainly to everybody')
  await page.getByLabel('All subscribers').check()
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  await page.getByRole('button', { name: 'Send to all subscribers' }).click()
  await expect(page.getByRole('progressbar')).toHaveAttribute('value', '2000')
  await page.getByRole('button', { name: 'Continue' }).click()
  await expect(page.getByRole('progressbar')).toHaveAttribute('value', '4000')
  await context.close()
})

test('an inbox that is looked at shows what arrives, and is marked as read', async ({ page, context }) => {
  await signIn(page, `/inbox?account=${ACCOUNT}`)
  await expect(page.getByText('Number 3.')).toBeVisible()
  const other = await context.newPage()
  await open(other, PAGES[0])
  await write(other, 'Arrived meanwhile')
  await other.getByLabel('Accounts one in a line').fill(ACCOUNT)
  await other.getByRole('button', { name: 'Check who would get it' }).click()
  await other.getByRole('button', { name: 'Send to 1 account' }).click()
  await expect(other.getByRole('status')).toContainText('Sent to 1 account.')

  const arrived = page.getByRole('article', { name: 'Arrived meanwhile' })
  await expect(arrived).toBeVisible()
  await arrived.getByRole('button', { name: 'Mark as read' }).click()
  await expect(page.getByRole('status')).toContainText('1 marked as read.')
  await expect(arrived).toContainText('marked as read by the app or the operator')
})

test('a range of analytics is chosen, and the figures are beside the drawing', async ({ page }) => {
  await signIn(page, PAGES[2])
  await page.getByRole('link', { name: '7 days' }).click()
  await expect(page.getByRole('link', { name: '7 days' })).toHaveAttribute('aria-current', 'true')
  await expect(page.getByRole('img', { name: 'Read rate of All types' })).toBeVisible()
  await page.getByText('Figures of All types').click()
  await expect(page.getByRole('figure', { name: 'All types' }).getByRole('row')).toHaveCount(2)
  await page.getByRole('link', { name: 'news', exact: true }).click()
  await expect(page.getByRole('link', { name: 'All types' })).toBeVisible()
})

test('the keyboard alone composes a notification', async ({ page }) => {
  await signIn(page, PAGES[0])
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  for (const [name, text] of [['title', 'By keyboard'], ['body', 'A body'], ['accounts', ACCOUNT]]) {
    for (let steps = 0; steps < 40; steps += 1) {
      await page.keyboard.press('Tab')
      if (await page.evaluate(() => document.activeElement?.getAttribute('name')) === name) break
    }
    await page.keyboard.type(text)
  }
  await page.getByLabel('Title').focus()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'Nothing is sent yet' })).toBeVisible()
  for (let steps = 0; steps < 60; steps += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => document.activeElement?.value) === 'send') break
  }
  await page.keyboard.press('Enter')
  await expect(page.getByRole('status')).toContainText('Sent to 1 account.')
})

test('Enter in a field of a checked notification checks it again, and sends nothing', async ({ page }) => {
  await signIn(page, PAGES[0])
  await write(page, 'Not yet')
  await page.getByLabel('Accounts one in a line').fill(ACCOUNT)
  for (const title of ['Not yet', 'Still not']) {
    await page.getByLabel('Title').fill(title)
    await page.getByLabel('Title').press('Enter')
    await expect(page.getByRole('img', { name: `Shop: ${title}` })).toBeVisible()
  }
})

test('texts of projects run nothing and lead nowhere', async ({ page }) => {
  await signIn(page, '/notifications?project_id=hostile')
  await page.locator('#list a').first().click()
  await expect(page.getByRole('region', { name: 'Details' })).toContainText('<img src=x onerror=')
  for (const path of ['', '/inbox?account=test:chain:hostile']) {
    if (path) await open(page, path)
    await expect(page.locator('body')).toContainText('<U+202E>')
    expect(await page.evaluate(() => [window.hacked, document.querySelectorAll('main img, [href^="javascript:"]').length])).toEqual([undefined, 0])
  }
})

test('pages have no fault', async ({ page }) => {
  const look = (path) => expectNoFault(page, path)
  await signIn(page, PAGES[0])
  for (const path of [...PAGES, process.env.CONSOLE_NOTIFICATION]) {
    await open(page, path)
    await look(path)
  }
  await open(page, PAGES[0])
  await write(page, 'Looked at')
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  await expect(page.getByRole('alert')).toBeVisible()
  await look('compose with faults')
  await page.getByLabel('Accounts one in a line').fill(`${ACCOUNT}\ntest:chain:nobody`)
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  await expect(page.getByRole('heading', { name: 'Nothing is sent yet' })).toBeVisible()
  await look('compose checked')
  await page.getByRole('button', { name: 'Send to 2 accounts' }).click()
  await expect(page.getByRole('status')).toContainText('Sent to')
})
