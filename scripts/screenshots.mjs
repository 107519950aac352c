// The pictures of the documentation: `scripts/screenshots` runs this. A picture is a line in PICTURES; a page that
// this version of the server does not have is left out, with a word.

import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { startProgram, temporaryFolder } from '../javascript/test/source/program.js'
import { startWallet } from '../javascript/test/source/wallet.js'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const IMAGES = join(ROOT, 'docs', 'images')
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium'
const WALLET = 'Example wallet'
const { chromium } = createRequire(join(ROOT, 'tests', 'node', 'package.json'))('@playwright/test')

/** By name: the path of the page, its size, and what a person does there before the picture is taken. */
const PICTURES = {
  inbox: { path: '/inbox/?project=corner-shop', width: 720, height: 560, act: readInbox },
  'console-traffic': { path: '/console/traffic', width: 1200, height: 720, isConsole: true },
  'console-wallet': { path: '/console/wallet', width: 1200, height: 720, isConsole: true },
  'console-compose': { path: '/console/compose', width: 1200, height: 720, isConsole: true },
}

async function readInbox(page) {
  await page.getByRole('button', { name: `Sign in with ${WALLET}` }).click()
  await page.getByRole('button', { name: 'Your order is on its way' }).click()
  await page.getByRole('link').waitFor()
  await page.mouse.move(0, 0)
}

/** A server for development with a project that has sent some notifications, and a call that waits for approval. */
async function startDemo() {
  const server = await startProgram(
    ['dev', '--port', '0', '--policy', 'queue', '--set', 'account_burst=100'],
    temporaryFolder()
  )
  const { url, admin_token: token, accounts } = server.facts
  const post = (path, bearer, fields, method = 'POST') =>
    fetch(url + path, {
      method,
      headers: { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(fields),
    }).then(async (response) => {
      if (!response.ok) throw new Error(`${path} answers ${await response.text()}`)
      return response.json()
    })
  const account = `eip155:1:${accounts[0].address}`
  const { secret } = (await post('/admin/projects', token, { name: 'Corner Shop', project_id: 'corner-shop' })).secret
  for (const [id, name] of [['orders', 'Orders'], ['offers', 'Offers']]) {
    await post('/admin/projects/corner-shop/types', token, { name, type_id: id })
  }
  await post(`/admin/projects/corner-shop/subscribers/${account}`, token, {}, 'PUT')
  for (const [type, title, body, url] of [
    ['offers', 'Fresh bread on Saturday', 'From seven in the morning, while stocks last.'],
    ['orders', 'We have your order', 'Order 1047 is paid and will be packed today.'],
    ['orders', 'Your order is on its way', 'Order 1047 arrives tomorrow between 9 and 11.', 'https://shop.example/orders/1047'],
    ['offers', 'One coffee, one cake', 'Show this message in the shop this week.'],
  ]) {
    await post('/corner-shop/notify', secret, { notification: { type, title, body, url }, accounts: [account] })
  }
  const call = { jsonrpc: '2.0', id: 1, method: 'personal_sign', params: ['0x68656c6c6f', accounts[1].address] }
  post('/rpc', '', call).catch(() => undefined) // nobody approves it before the server ends
  return server
}

/** The link that signs in to the console; null if this version of the server has none. */
async function consoleLink({ data_dir: dataDir }) {
  const command = [process.env.BRIDGE_SERVER_BIN, ['console', '--data-dir', dataDir, '--json']]
  return promisify(execFile)(...command).then(({ stdout }) => JSON.parse(stdout).link, () => null)
}

async function take(name, { path, width, height, isConsole, act }, { browser, facts, wallet }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: 'light', locale: 'en-GB', timezoneId: 'UTC' })
  const page = await context.newPage()
  try {
    const link = isConsole && (await consoleLink(facts))
    if (link) await page.goto(link)
    await wallet.install(page, { name: WALLET })
    const response = await page.goto(facts.url + path)
    if (!response.ok()) return console.log(`${name}: left out, ${path} answers ${response.status()}`)
    await act?.(page)
    await page.screenshot({ path: join(IMAGES, `${name}.png`) })
    console.log(`${name}: docs/images/${name}.png`)
  } finally {
    await context.close()
  }
}

async function main(names) {
  const unknown = names.filter((name) => !(name in PICTURES))
  if (unknown.length) throw new Error(`no picture ${unknown.join(', ')}: choose from ${Object.keys(PICTURES).join(', ')}`)
  mkdirSync(IMAGES, { recursive: true })
  const server = await startDemo()
  const wallet = await startWallet()
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  try {
    for (const name of names.length ? names : Object.keys(PICTURES)) {
      await take(name, PICTURES[name], { browser, facts: server.facts, wallet })
    }
  } finally {
    await browser.close()
    await wallet.stop()
    await server.stop()
  }
}

await main(process.argv.slice(2)).catch((error) => {
  console.error(`scripts/screenshots: ${error.message}`)
  process.exitCode = 1
})
