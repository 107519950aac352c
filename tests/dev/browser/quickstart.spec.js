// The steps of docs/quickstart.md. INBOX and CONSOLE are links of the banner; EXAMPLE sends a notification.

import { execFileSync } from 'node:child_process'
import { expect, test } from '@playwright/test'
import { expectNoFault, turnTo } from './page_check.js'

const titles = (page) => page.locator('[part~=title] bdi')
const button = (page) => page.getByRole('button', { name: 'Sign in as development account 0' })

for (const [colorScheme, width] of [['light', 1280], ['dark', 390]]) {
  test(`account 0 signs in without a wallet, and sees what the example sends: ${colorScheme}, ${width}`, async ({ page }) => {
    await turnTo(page, [colorScheme, width])
    await page.goto(process.env.INBOX)
    await expect(button(page)).toBeVisible()
    await expectNoFault(page, 'signed out', { looks: [[colorScheme, width]] })

    await button(page).click()
    await expect(page.getByText('Signed in as 0xf39F…2266')).toBeVisible()
    await expect(titles(page).last()).toHaveText('Welcome')
    const before = await titles(page).allTextContents()
    const answer = JSON.parse(execFileSync('sh', ['-euc', process.env.EXAMPLE], { encoding: 'utf8' }))
    expect(answer.sent).toHaveLength(1)

    await expect(titles(page)).toHaveText(['Hello', ...before])
    await page.reload()
    await expect(titles(page)).toHaveText(['Hello', ...before])
    if (width < 500) await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await expect(button(page)).toBeVisible()
    if (width > 1000) {
      await page.goto(process.env.CONSOLE)
      await expect(page.getByRole('link', { name: 'POST /demo/notify' }).first()).toBeVisible()
    }
  })
}
