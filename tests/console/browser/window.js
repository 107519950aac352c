// A window of a browser at the console. servers.json has the server of each specification, with the cookie of a session:
// a link would have to be used within five minutes.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { test } from '@playwright/test'

export { expectNoFault } from './page_check.js'

const servers = JSON.parse(readFileSync(new URL('./servers.json', import.meta.url), 'utf8'))

/** The server of the running test: its `url`, the `cookie` of a session, and the `testToken` of test mode. */
export const server = () => servers[basename(test.info().file)]

/** The session of this page's context, and the page of this path, if there is one. */
export async function signIn(page, path) {
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('status of 4')) page.faults.push(message.text())
  })
  const { cookie, url } = server()
  const name = cookie.split('=', 1)[0]
  await page.context().addCookies([{ name, value: cookie.slice(name.length + 1), url, httpOnly: true, sameSite: 'Strict' }])
  if (path) await open(page, path)
}

export async function open(page, path) {
  await page.goto(`${server().url}/console${path}`)
}
