// A window of a browser at the console. CONSOLE_URL names the console, and CONSOLE_LINKS is a file with a sign-in
// link on each line, one for each test.

import { readFileSync, writeFileSync } from 'node:fs'
import { expect } from '@playwright/test'

export { expectNoFault } from './page_check.js'

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
  await expect(page.getByRole('heading', { level: 1, name: 'Traffic' })).toBeVisible()
  if (path) await open(page, path)
}

export async function open(page, path) {
  await page.goto(`${process.env.CONSOLE_URL}${path}`)
}
