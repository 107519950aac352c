// The pictures of the documentation, each a line in PICTURES, and with `--pages` a picture of every page, each a
// line in PAGES: `scripts/screenshots` runs this.

import { execFile, spawn } from 'node:child_process'
import { createCipheriv, createHash, createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'

import { startProgram, temporaryFolder } from '../javascript/test/source/program.js'
import { startWallet } from '../javascript/test/source/wallet.js'
import { smallerPng } from './smaller_png.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const IMAGES = join(ROOT, 'docs', 'images')
const IMAGES_OF_PAGES = join(ROOT, 'tests', 'console', 'pictures')
const WIDTHS = { 1280: 960, 390: 1200 } // pixels, with the greatest height
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell'
const WALLET = 'Example wallet'
const { chromium } = createRequire(join(ROOT, 'tests', 'node', 'package.json'))('@playwright/test')

/** By name: the path of the page, its size, and what a person does there before the picture is taken. */
const PICTURES = {
  'console-traffic': { path: '/console/traffic', width: 1280, height: 720, act: openCall },
  'console-wallet': { path: '/console/wallet', width: 1280, height: 720, act: openApproval },
  'console-compose': { path: '/console/compose?project_id=corner-shop', width: 1280, height: 900, act: compose },
  inbox: { path: '/inbox/?project=corner-shop', width: 720, height: 560, act: readInbox },
}

/** By name: the path of each page, and what a person does there before the picture is taken. */
const PAGES = {
  front: { path: '/' },
  docs: { path: '/docs/' },
  'docs-page': { path: '/docs/quickstart' },
  'docs-missing': { path: '/docs/quickstrat' },
  inbox: { path: '/inbox/?project=corner-shop', act: readInbox },
  'inbox-signed-out': { path: '/inbox/?project=corner-shop' },
  'console-traffic': { path: '/console/traffic' },
  'console-request': { path: '/console/traffic?filter=Example', act: openCall },
  'console-sessions': { path: '/console/sessions' },
  'console-session': { path: '/console/sessions', act: openFirst },
  'console-wallet': { path: '/console/wallet' },
  'console-approval': { path: '/console/wallet', act: openApproval },
  'console-transactions': { path: '/console/wallet/transactions' },
  'console-signatures': { path: '/console/wallet/signatures' },
  'console-webhooks': { path: '/console/webhooks' },
  'console-webhook-attempts': { path: '/console/webhooks/attempts' },
  'console-webhook-attempt': { path: '/console/webhooks/attempts', act: openFirst },
  'console-pushes': { path: '/console/pushes' },
  'console-push-preview': { path: '/console/pushes/preview' },
  'console-projects': { path: '/console/projects' },
  'console-project': { path: '/console/projects/corner-shop' },
  'console-compose': { path: '/console/compose?project_id=corner-shop', act: compose },
  'console-notifications': { path: '/console/notifications?project_id=corner-shop' },
  'console-notification': { path: '/console/notifications?project_id=corner-shop', act: openFirst },
  'console-analytics': { path: '/console/analytics?project_id=corner-shop' },
  'console-inbox': { path: '/console/inbox', act: previewInbox },
  'console-clients': { path: '/console/clients' },
  'console-client': { path: '/console/clients', act: openFirst },
  'console-faults': { path: '/console/faults' },
  'console-settings': { path: '/console/settings' },
  'console-missing': { path: '/console/no-such-page' },
  'console-signed-out': { path: '/console', isSignedOut: true },
}

async function openFirst(page) {
  await page.locator('main.whole tbody th a').first().click()
  await page.locator('main.split .detail').waitFor()
}

async function previewInbox(page, { account }) {
  await page.getByLabel(/^Account/).first().fill(account)
  await page.keyboard.press('Enter')
  await page.getByRole('article').first().waitFor()
}

async function readInbox(page) {
  await page.getByRole('button', { name: `Sign in with ${WALLET}` }).click()
  await page.getByRole('button', { name: 'Your order is on its way' }).click()
  await page.getByRole('link', { name: /shop.example/ }).waitFor()
  await page.mouse.move(0, 0)
}

async function openCall(page, { pairingUri }) {
  await page.getByRole('link', { name: /call\/new/ }).first().click()
  await page.getByLabel('Pairing URI').fill(pairingUri)
  await page.getByRole('button', { name: 'Open', exact: true }).click()
  await page.locator('.opened').waitFor()
}

async function openApproval(page) {
  await page.getByRole('link', { name: /^eth_sendTransaction/ }).click()
  await page.getByRole('button', { name: 'Approve' }).waitFor()
}

async function compose(page) {
  await page.locator('[name=type]').selectOption('offers')
  await page.locator('[name=title]').fill('Fresh bread on Saturday')
  await page.locator('[name=body]').fill('From seven in the morning, while stocks last.')
  await page.locator('[name=url]').fill('https://shop.example/offers/bread')
  await page.locator('[value=all]').check()
  await page.getByRole('button', { name: 'Check who would get it' }).click()
  await page.getByRole('button', { name: /^Send to/ }).waitFor()
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
  return { server, ...(await visit(server, accounts)) }
}

const KEY = createHash('sha256').update('the key of a picture').digest()

/** A content as generation 0.7 seals it. */
function sealed(content) {
  const iv = createHash('md5').update(JSON.stringify(content)).digest()
  const cipher = createCipheriv('aes-256-cbc', KEY, iv)
  const data = cipher.update(JSON.stringify({ data: content }), 'utf8', 'hex') + cipher.final('hex')
  const hmac = createHmac('sha256', KEY).update(data + iv.toString('hex')).digest('hex')
  return { encryptionPayload: { data, hmac, iv: iv.toString('hex') } }
}

/** Dapps, wallets and a web page use the server. */
async function visit({ facts: { url } }, accounts) {
  const [{ address }, { address: payer }, { address: shop }] = accounts
  const hook = createServer((_, response) => response.writeHead(204).end()).listen(0, '127.0.0.1').unref()
  await once(hook, 'listening')
  const send = async (method, path, fields, headers = {}) => {
    const body = fields && JSON.stringify(fields)
    const response = await fetch(url + path, { method, body, headers: { 'Content-Type': 'application/json', ...headers } })
    return response.json().catch(() => null)
  }
  const rpc = (method, params, headers) => send('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params }, headers)
  const waiting = (path) => void send('GET', path, undefined, { Prefer: 'wait=25' }).catch(() => undefined)
  const pair = async (dapp) => {
    const { sessionId } = await send('POST', '/session/new', { dappName: dapp })
    waiting(`/session/${sessionId}`)
    await sleep(600)
    const push = { type: 'webhook', token: 'telephone', webhook: `http://127.0.0.1:${hook.address().port}/hook` }
    await send('PUT', `/session/${sessionId}`, { ...sealed({ approved: true, accounts: [address] }), push })
    return sessionId
  }
  await send('GET', '/info')
  const done = await pair('Corner Shop')
  const { callId } = await send('POST', `/session/${done}/call/new`, { ...sealed({ method: 'eth_accounts' }), dappName: 'Corner Shop' })
  waiting(`/call-status/${callId}`)
  await send('GET', `/session/${done}/calls`)
  await send('POST', `/call-status/${callId}/new`, sealed({ result: [address] }))
  await rpc('eth_accounts', [])
  await rpc('eth_accounts', [], { Origin: 'https://elsewhere.example' })
  void rpc('personal_sign', ['0x' + Buffer.from('Sign in to Corner Shop').toString('hex'), address]).catch(() => undefined)
  await send('POST', `/session/${done}/call/new`, sealed({ method: 'eth_chainId' }))
  const sessionId = await pair('Example Dapp')
  const message = '0x' + Buffer.from('Order 1047').toString('hex')
  const call = sealed({ id: 1047, jsonrpc: '2.0', method: 'personal_sign', params: [message, address] })
  await send('POST', `/session/${sessionId}/call/new`, { ...call, dappName: 'Example Dapp' })
  const payment = { from: payer, to: shop, value: '0x16345785d8a0000', gas: '0x5208', gasPrice: '0x3b9aca00', nonce: '0x0' }
  void rpc('eth_sendTransaction', [payment], { Origin: 'http://localhost:3000' }).catch(() => undefined)
  await sleep(500)
  return { pairingUri: `wc:${sessionId}@1?bridge=${encodeURIComponent(url)}&key=${KEY.toString('hex')}` }
}

/** The link that signs in to the console; null if this version of the server has none. */
async function consoleLink({ data_dir: dataDir }) {
  const command = [process.env.BRIDGE_SERVER_BIN, ['console', '--data-dir', dataDir, '--json']]
  return promisify(execFile)(...command).then(({ stdout }) => JSON.parse(stdout).link, () => null)
}

/** Dapps and wallets of three generations, whose calls wait for approval. */
function startSessions(facts) {
  const lines = ['import asyncio, json, sys', 'from bridge_server.kit.demo import demonstrate', 'asyncio.run(demonstrate(json.loads(sys.argv[1])))']
  return spawn(join(ROOT, '.venv', 'bin', 'python'), ['-c', lines.join('\n'), JSON.stringify(facts)], { stdio: 'inherit' })
}

/** A window at a page, ready for its picture; null if this version of the server does not have the page. */
async function opened({ path, width, height, isSignedOut, act, colorScheme = 'light' }, { browser, facts, wallet, pairingUri }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, locale: 'en-GB', timezoneId: 'UTC' })
  const page = await context.newPage()
  const link = path.startsWith('/console') && !isSignedOut && (await consoleLink(facts))
  if (link) await page.goto(link)
  await wallet.install(page, { name: WALLET })
  await page.goto(facts.url + path)
  await act?.(page, { pairingUri, account: `eip155:1:${facts.accounts[0].address}` })
  await page.evaluate(() => (document.activeElement?.blur(), scrollTo(0, 0)))
  return page
}

async function take(file, picture, visit, most) {
  const page = await opened(picture, visit)
  try {
    if (most) {
      const height = await page.evaluate(() => document.documentElement.scrollHeight)
      await page.setViewportSize({ width: picture.width, height: Math.min(most, height) })
    }
    writeFileSync(file, smallerPng(await page.screenshot()))
    console.log(file)
  } finally {
    await page.context().close()
  }
}

async function takePages(folder, names, colorScheme, visit) {
  mkdirSync(folder, { recursive: true })
  for (const name of names.length ? names : Object.keys(PAGES)) {
    for (const [width, most] of Object.entries(WIDTHS)) {
      const picture = { ...PAGES[name], width: Number(width), height: 800, colorScheme }
      await take(join(folder, `${name}-${width}.png`), picture, visit, most).catch((error) => console.error(`${name}: ${error.message}`))
    }
  }
}

async function main() {
  const { values: { pages, dark, to }, positionals: names } = parseArgs({
    options: { pages: { type: 'boolean' }, dark: { type: 'boolean' }, to: { type: 'string' } }, allowPositionals: true,
  })
  const known = pages ? PAGES : PICTURES
  const unknown = names.filter((name) => !(name in known))
  if (unknown.length) throw new Error(`no picture ${unknown.join(', ')}: choose from ${Object.keys(known).join(', ')}`)
  const { server, pairingUri } = await startDemo()
  const wallet = await startWallet()
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
  const visit = { browser, facts: server.facts, wallet, pairingUri }
  const sessions = pages && startSessions(server.facts)
  try {
    if (pages) {
      await sleep(4000) // until the sessions have calls
      await takePages(to ?? IMAGES_OF_PAGES, names, dark ? 'dark' : 'light', visit)
    } else {
      for (const name of names.length ? names : Object.keys(PICTURES)) {
        await take(join(to ?? IMAGES, `${name}.png`), PICTURES[name], visit)
      }
    }
  } finally {
    sessions && sessions.kill()
    await browser.close()
    await wallet.stop()
    await server.stop()
  }
}

await main().catch((error) => {
  console.error(`scripts/screenshots: ${error.message}`)
  process.exitCode = 1
})
