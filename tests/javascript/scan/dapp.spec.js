// A wallet in the page refuses, and a wallet beside the page scans its QR code.
import { expect, test } from '@bridge-server/test/playwright'

const DAPP = 'http://dapp.localhost/'
const FILES = {
  '': 'other-dapp.html',
  'client.js': 'node_modules/@walletconnect/client/dist/umd/index.min.js',
  'qrcode.js': 'node_modules/qrcode-generator/dist/qrcode.js',
}

test.beforeEach(({ page }) =>
  page.route(`${DAPP}**`, (route) => {
    const name = new URL(route.request().url()).pathname.slice(1)
    return name in FILES ? route.fulfill({ path: FILES[name] }) : route.fulfill({ status: 404 })
  })
)

test('the user refuses', async ({ page, wallet }) => {
  await wallet.setRules({ personal_sign: 'reject' })
  await wallet.install(page)
  await page.goto(DAPP)

  await page.getByRole('button', { name: 'Sign' }).click()

  await expect(page.getByRole('status')).toHaveText('refused: 4001')
})

test('the user scans the QR code', async ({ page, bridge, wallet }) => {
  await page.goto(`${DAPP}?bridge=${bridge.url}`)
  await page.getByRole('button', { name: 'Connect a phone' }).click()

  const session = await wallet.scan(page, { timeout: 60 })

  await expect(page.getByRole('status')).toHaveText(`connected to ${session.accounts[0]}`)
})
