// The steps of docs/quickstart.md. INBOX and CONSOLE are links of the banner; EXAMPLE sends a notification.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect, test } from '@playwright/test'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const titles = (page) => page.locator('[part~=title] bdi')
const button = (page) => page.getByRole('button', { name: 'Sign in as development account 0' })

for (const [colorScheme, width] of [['light', 1280], ['dark', 390]]) {
  test(`account 0 signs in without a wallet, and sees what the example sends: ${colorScheme}, ${width}`, async ({ page }) => {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 800 })
    await page.goto(process.env.INBOX)
    await expect(button(page)).toBeVisible()
    await page.evaluate(axe)
    const found = await page.evaluate(async () => (await axe.run({ resultTypes: ['violations'] })).violations.map(({ id }) => id))
    expect(found).toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)

    await button(page).click()
    await expect(page.getByText('Signed in as 0xf39F…2266')).toBeVisible()
    await expect(titles(page).last()).toHaveText('Welcome')
    const before = await titles(page).allTextContents()
    const answer = JSON.parse(execFileSync('sh', ['-euc', process.env.EXAMPLE], { encoding: 'utf8' }))
    expect(answer.sent).toHaveLength(1)

    await expect(titles(page)).toHaveText(['Hello', ...before])
    await page.reload()
    await expect(titles(page)).toHaveText(['Hello', ...before])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await expect(button(page)).toBeVisible()
    if (width > 1000) {
      await page.goto(process.env.CONSOLE)
      await expect(page.getByRole('link', { name: 'POST /demo/notify' }).first()).toBeVisible()
    }
  })
}
