// A window of a browser at the console. CONSOLE_URL names the console, and CONSOLE_LINKS is a file with a sign-in
// link on each line, one for each test.

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect } from '@playwright/test'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export function nextLink() {
  const [link, ...others] = readFileSync(process.env.CONSOLE_LINKS, 'utf8').split('\n')
  writeFileSync(process.env.CONSOLE_LINKS, others.join('\n'))
  return link
}

export async function signIn(page, path = '') {
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('status of 4')) page.faults.push(message.text())
  })
  await page.goto(nextLink())
  await expect(page.getByRole('button', { name: 'Sign out' })).toBeVisible()
  if (path) await open(page, path)
}

export async function open(page, path) {
  await page.goto(`${process.env.CONSOLE_URL}${path}`)
}

export async function expectNoFault(page, path) {
  await page.evaluate(axe)
  const found = await page.evaluate(async () => (await axe.run({ resultTypes: ['violations'] })).violations
    .filter((each) => ['serious', 'critical'].includes(each.impact))
    .map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(' ')}`))
  expect(found, path).toEqual([])
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), path).toBeLessThanOrEqual(0)
}
