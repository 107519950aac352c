// The traffic of two processes in a real browser: the console is that of one; processes.json has the URLs of both.

import { readFileSync } from 'node:fs'
import { expect, test } from '@playwright/test'
import { expectNoFault, open, signIn } from './window.js'

const { urls, numbers } = JSON.parse(readFileSync(new URL('./processes.json', import.meta.url), 'utf8'))
const ask = (process, path) => fetch(urls[process] + path).then((answer) => answer.arrayBuffer())

test.afterEach(({ page }) => {
  expect(page.faults ?? []).toEqual([])
})

test('rows of both processes come while they are looked at, and each opens', async ({ page }) => {
  await signIn(page)
  await ask(0, '/seen-first')
  await open(page, '/traffic?filter=seen')
  await expect(page.getByRole('columnheader', { name: 'Process' })).toBeVisible()
  for (const [process, path] of [[1, '/seen-there'], [0, '/seen-here'], [1, '/seen-last']]) {
    await ask(process, path)
    const row = page.getByRole('row', { name: new RegExp(path) })
    await expect(row.locator('.process')).toHaveText(`${numbers[process]}`)
    await expect(row).toContainText('404')
  }
  await expect(page.locator('live-traffic tbody tr').first()).toContainText('/seen-last')
  await expectNoFault(page, 'traffic', { looks: [['light', 1280]] })
  await page.getByRole('link', { name: 'GET /seen-there' }).click()
  await expect(page.getByRole('heading', { name: 'GET /seen-there' })).toBeVisible()
  await expect(page.getByText(`of process ${numbers[1]}`)).toBeVisible()
  await expect(page.locator('tr.open')).toContainText('/seen-there')
  await ask(1, '/seen-beside')
  await expect(page.getByRole('row', { name: /seen-beside/ })).toBeVisible()
})

test('a paused list of both processes goes on where it was', async ({ page }) => {
  await signIn(page, '/traffic?filter=paused')
  await ask(1, '/paused-before')
  await expect(page.getByRole('row', { name: /paused-before/ })).toBeVisible()
  await page.getByRole('button', { name: 'pause' }).click()
  await ask(0, '/paused-here')
  await ask(1, '/paused-there')
  await page.getByRole('button', { name: 'pause' }).click()
  await expect(page.getByRole('row', { name: /paused-here/ })).toBeVisible()
  await expect(page.getByRole('row', { name: /paused-there/ })).toBeVisible()
  await expect(page.locator('live-traffic tbody tr')).toHaveCount(3)
})
