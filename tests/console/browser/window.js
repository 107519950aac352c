// A window of a browser at the console. CONSOLE_URL names the console, and CONSOLE_COOKIE is the cookie of a session:
// a link would have to be used within five minutes.

export { expectNoFault } from './page_check.js'

/** The session of this page's context, and the page of this path, if there is one. */
export async function signIn(page, path) {
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().includes('status of 4')) page.faults.push(message.text())
  })
  const { CONSOLE_COOKIE: cookie, CONSOLE_URL: url } = process.env
  const name = cookie.split('=', 1)[0]
  await page.context().addCookies([{ name, value: cookie.slice(name.length + 1), url, httpOnly: true, sameSite: 'Strict' }])
  if (path) await open(page, path)
}

export async function open(page, path) {
  await page.goto(`${process.env.CONSOLE_URL}${path}`)
}
