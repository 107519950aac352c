// The pages at /docs/ in a real browser: with and without JavaScript, by the keyboard, and what axe-core finds.
// DOCS_URL names them; HAS_SWAGGER_UI is 1 if the server has Swagger UI.

import { expect, test } from '@playwright/test'
import { expectNoFault } from './page_check.js'

const PAGES = ['/', '/quickstart', '/reference', '/errors', '/errors/limit-exceeded', '/protocol', '/nothing']
const LONG_PAGES = ['/api', '/api/bridge', '/methods'] // examined once: axe-core takes long

async function open(page, path) {
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('status of 404')) page.faults.push(message.text())
  })
  await page.goto(`${process.env.DOCS_URL}${path}`)
}

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

test('pages have no fault', async ({ page }) => {
  for (const path of PAGES) {
    await open(page, path)
    await expectNoFault(page, path)
  }
  for (const path of LONG_PAGES) {
    await open(page, path)
    await expectNoFault(page, path, { looks: [['dark', 390]] })
  }
})

test('without JavaScript a reader goes from the start to a problem', async ({ browser }) => {
  const context = await browser.newContext({ javaScriptEnabled: false })
  const page = await context.newPage()
  await open(page, '/')
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Errors' }).click()
  await page.getByRole('link', { name: 'limit-exceeded' }).click()
  await expect(page.getByRole('heading', { name: 'Too many requests' })).toBeVisible()
  await expect(page.getByText('Wait for the seconds of Retry-After')).toBeVisible()
  await context.close()
})

test('the keyboard alone reaches the content and follows a link', async ({ page }) => {
  await open(page, '/')
  await page.keyboard.press('Tab')
  await expect(page.getByRole('link', { name: 'Skip to the content' })).toBeFocused()
  await page.keyboard.press('Enter')
  await page.keyboard.press('Tab')
  await expect(page.getByRole('main').getByRole('link', { name: 'openapi.json', exact: true })).toBeFocused()
  await page.keyboard.press('/')
  await page.keyboard.type('limit-exceeded')
  await expect(page.getByRole('search').getByRole('status')).toContainText('found')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1, name: 'Too many requests' })).toBeVisible()
})

test('the search finds words below headings, on a telephone too', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 800 })
  await open(page, '/')
  await page.getByRole('searchbox').fill('pyWalletConnect binary')
  await expect(page.getByRole('search').getByRole('status')).toContainText(/found|Nothing/)
  await page.getByRole('searchbox').fill('openapi-typescript')
  await page.getByRole('search').getByRole('link').first().click()
  await expect(page).toHaveURL(/\/docs\/protocol#/)
  await page.getByRole('searchbox').fill('nothing-of-this-kind')
  await expect(page.getByText('Nothing found for nothing-of-this-kind')).toBeVisible()
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
})

test('a button copies code, of a transcript the commands', async ({ context, page }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await open(page, '/notify')
  const code = page.locator('.code').filter({ hasText: 'project create' }).first()
  await code.hover()
  await code.getByRole('button', { name: 'Copy code' }).click()
  await expect(code.getByRole('button', { name: 'Copy code' })).toHaveText('Copied')
  const copied = await page.evaluate(() => navigator.clipboard.readText())
  expect(copied).toMatch(/^SECRET=/)
  expect(copied).not.toContain('1 subscribed')
})

test('on a telephone the menu opens the navigation', async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 800 })
  await open(page, '/errors')
  await expect(page.getByRole('navigation', { name: 'Pages' })).toBeHidden()
  await page.getByText('Menu').click()
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Wallet methods' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Wallet methods' })).toBeVisible()
})

test('the page at the root has addresses to copy, and no fault', async ({ context, page }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await open(page, '/../')
  await expectNoFault(page, 'the root')
  const relay = process.env.DOCS_URL.replace('http', 'ws').replace('/docs', '')
  await page.getByRole('button', { name: `Copy ${relay}` }).click()
  await expect(page.getByText('Copied')).toBeVisible()
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(relay)
  await page.getByRole('link', { name: 'Docs' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Bridge Server' })).toBeVisible()
})

// One page for both: Swagger UI takes seconds to draw itself.
test('the page of Swagger UI has no fault of its own, and an operation is tried', async ({ page }) => {
  const operation = page.locator('.opblock-summary-path[data-path="/hello"]')
  const hasSwaggerUi = process.env.HAS_SWAGGER_UI === '1'
  await open(page, '/try')
  if (hasSwaggerUi) await expect(operation).toBeVisible()
  await expectNoFault(page, '/try', { exclude: ['#swagger-ui'] })
  test.skip(!hasSwaggerUi, 'the server has no Swagger UI')
  await operation.click()
  await page.getByRole('button', { name: 'Try it out' }).click()
  await page.getByRole('button', { name: 'Execute' }).click()
  await expect(page.locator('.live-responses-table')).toContainText('Hello World, this is Bridge Server')
})
