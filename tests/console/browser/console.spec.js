// The console's pages in a real browser: a person's steps, the keyboard alone, and what axe-core finds.
// CONSOLE_LINK is a sign-in link.

import { expect, test } from '@playwright/test'
import { expectNoFault, open, signIn } from './window.js'

const PAGES = ['/projects', '/projects/shop', '/faults', '/missing']

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

test('a link in a page of another site signs in', async ({ page }) => {
  await page.route('http://chat.example/', (route) =>
    route.fulfill({ contentType: 'text/html', body: `<a href="${process.env.CONSOLE_LINK}">the link</a>` }))
  await page.goto('http://chat.example/')
  await page.getByText('the link').click()
  await expect(page.getByRole('heading', { name: 'Traffic' })).toBeVisible()
})

test('a project is created, given a type, and deleted', async ({ page }) => {
  await signIn(page, '/projects')
  await page.getByLabel('Name', { exact: true }).fill('Bakery')
  await page.getByLabel('Id a-z').fill('bakery')
  await page.getByRole('button', { name: 'Create' }).click()
  await expect(page.getByRole('status')).toContainText('The project Bakery is created.')
  await expect(page.getByRole('status')).toContainText('bsk_')

  await page.getByLabel('Name of a new type').fill('Fresh bread')
  await page.getByRole('button', { name: 'Add', exact: true }).first().click()
  await expect(page.getByRole('status')).toContainText('The type fresh-bread is added.')

  await page.getByText('Delete the project with').click()
  await page.getByLabel('Type bakery to confirm').fill('bakery')
  await page.getByRole('button', { name: 'Delete' }).click()
  await expect(page.getByRole('status')).toContainText('The project bakery is deleted.')
})

test('a refused form says why and keeps what was typed', async ({ page }) => {
  await signIn(page, '/projects')
  await page.getByLabel('Name', { exact: true }).fill('Wrong')
  await page.getByLabel('Id a-z').fill('Not an id')
  await page.getByRole('button', { name: 'Create' }).click()

  await expect(page.getByRole('alert')).toContainText('lower-case letters')
  await expect(page.getByLabel('Id a-z')).toHaveValue('Not an id')
})

test('a list that is looked at is up to date, and leaves a half-typed form alone', async ({ page, context }) => {
  await page.route('**/hx-sse.*', async (route) => { // a slow network: the script comes after all others
    await new Promise((resolve) => setTimeout(resolve, 500))
    await route.continue()
  })
  await signIn(page, '/projects')
  await page.getByLabel('Name', { exact: true }).fill('Half')
  const other = await context.newPage()
  await open(other, '/projects')
  await other.getByLabel('Name', { exact: true }).fill('Arrived meanwhile')
  await other.getByRole('button', { name: 'Create' }).click()
  await expect(other.getByRole('status')).toContainText('created')

  await expect(page.getByRole('link', { name: 'Arrived meanwhile' })).toBeVisible()
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('Half')
})

test('a rule is added and removed, and time passes', async ({ page }) => {
  await signIn(page, '/projects')
  await page.getByRole('link', { name: 'Faults and clock' }).click()
  await page.getByLabel('Status').fill('503')
  await page.getByRole('button', { name: 'Add' }).click()
  await expect(page.getByRole('status')).toContainText('The rule is in force.')
  await page.getByRole('button', { name: 'Remove the rule 1' }).click()
  await expect(page.getByText('No rule is in force')).toBeVisible()
  await page.getByRole('button', { name: 'Advance' }).click()
  await expect(page.getByRole('status')).toContainText('1 h have passed')
  await expect(page.getByText('clock +1 h')).toBeVisible()
})

test('a reset asks first', async ({ page }) => {
  await signIn(page, '/projects')
  page.once('dialog', (dialog) => dialog.dismiss())
  await page.getByRole('button', { name: 'Reset' }).click()
  await expect(page.getByRole('link', { name: 'Shop' })).toBeVisible()
  await expect(page.getByRole('status')).toHaveCount(0)
})

test('a secret is revoked after a question', async ({ page }) => {
  await signIn(page, '/projects')
  await page.getByRole('link', { name: 'Shop' }).click()
  await page.getByRole('button', { name: 'Add a second secret' }).click()
  await expect(page.getByRole('status')).toContainText('bsk_')
  const questions = []
  page.once('dialog', (dialog) => { questions.push(dialog.message()); return dialog.accept() })
  await page.getByRole('button', { name: /^Revoke secret/ }).last().click()
  await expect(page.getByRole('status')).toContainText('is revoked.')
  expect(questions).toHaveLength(1)
})

test('the keyboard alone reaches the content and creates a project', async ({ page }) => {
  await signIn(page, '/projects')
  await page.keyboard.press('Tab')
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused()
  await page.keyboard.press('Enter')
  for (let steps = 0; steps < 40; steps += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => document.activeElement?.getAttribute('name') === 'name')) break
  }
  await page.keyboard.type('By keyboard')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('status')).toContainText('The project By keyboard is created.')
})

test('without JavaScript a project is created and shown', async ({ browser }) => {
  const context = await browser.newContext({ javaScriptEnabled: false })
  const page = await context.newPage()
  await signIn(page, '/projects')
  await page.getByLabel('Name', { exact: true }).fill('Plain')
  await page.getByRole('button', { name: 'Create' }).click()
  await expect(page.getByRole('status')).toContainText('The project Plain is created.')
  await context.close()
})

test('texts of strangers run nothing and lead nowhere', async ({ page }) => {
  await signIn(page, '/projects/hostile')
  await expect(page.locator('body')).toContainText('<img src=x onerror=')
  await expect(page.locator('body')).toContainText('<U+202E>')
  expect(await page.evaluate(() => [window.hacked, document.querySelectorAll('img, [href^="javascript:"]').length])).toEqual([undefined, 0])
})

test('pages have no fault', async ({ browser, page }) => {
  await signIn(page, PAGES[0])
  for (const path of PAGES) {
    await open(page, path)
    await expectNoFault(page, path)
  }
  const stranger = await browser.newPage()
  await open(stranger, '')
  await expect(stranger.getByRole('heading', { name: 'You are not signed in' })).toBeVisible()
  await expectNoFault(stranger, 'signed out')
  await stranger.close()
})

test('times are those of the viewer, with the date of another day, and keep the full time in UTC', async ({ browser }) => {
  const page = await browser.newPage({ timezoneId: 'Asia/Tokyo' })
  await signIn(page, '/projects/shop')
  const time = page.locator('dl time')
  const at = new Date(await time.getAttribute('datetime'))
  const [day, clock] = new Date(at.getTime() + 9 * 3_600_000).toISOString().split('T')
  await expect(time).toHaveText(`${day} ${clock.slice(0, 8)}`)
  await expect(time).toHaveAttribute('title', `${at.toISOString().replace('T', ' ').replace('Z', '')} UTC`)
  await page.clock.setFixedTime(at)
  await page.reload()
  await expect(time).toHaveText(clock.slice(0, 8))
  await page.close()
})

test('the reset and the sign-out come last by the keyboard', async ({ page }) => {
  await signIn(page, '/projects')
  const reached = await page.locator('a, button, summary, input:not([type=hidden]), select, textarea').allTextContents()
  expect(reached.slice(-2)).toEqual(['Reset', 'Sign out'])
})
