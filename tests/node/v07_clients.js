// The published clients of generation 0.7, as the applications around them use them.
'use strict'

const { setTimeout: sleep } = require('node:timers/promises')

const dappPackage = require.resolve('walletconnect')
const WalletConnector = require('rn-walletconnect-wallet').default

const LOOK_EVERY_MS = 20

// What a page keeps over a reload: as much of the Web Storage interface as the package uses.
function emptyStorage() {
  const items = new Map()
  return {
    getItem: name => (items.has(name) ? items.get(name) : null),
    setItem: (name, value) => items.set(name, String(value)),
    removeItem: name => items.delete(name)
  }
}

// A dapp on a page of its own. The package takes the page's storage when it is loaded, so each page loads it anew.
function openPage(bridgeUrl, { storage = emptyStorage(), dappName = 'Example Dapp' } = {}) {
  global.window = { localStorage: storage }
  delete require.cache[dappPackage]
  const WalletConnect = require(dappPackage).default
  delete global.window
  return { dapp: new WalletConnect({ bridgeUrl, dappName }), storage }
}

// A wallet that reads what the dapp shows as a QR code.
function scan(uri, push) {
  const walletsServer = process.env.WALLET_URL // if it is another than the dapps'
  if (walletsServer) uri = uri.replace(/bridge=[^&]*/, `bridge=${encodeURIComponent(`${walletsServer}/compat/v0.7`)}`)
  return new WalletConnector({ uri, push })
}

// A wallet that was started again, from what it had kept of its session.
function restoreWallet(session) {
  return new WalletConnector(session)
}

// A dapp and a wallet with an approved session between them. `session` is what the wallet keeps.
async function pair(bridgeUrl, { accounts = ['0xabc1'], dappName, push } = {}) {
  const { dapp, storage } = openPage(bridgeUrl, { dappName })
  await dapp.initSession()
  const wallet = scan(dapp.uri, push)
  const approved = dapp.listenSessionStatus(LOOK_EVERY_MS)
  const session = await wallet.approveSession({ accounts })
  await approved
  return { dapp, storage, wallet, session }
}

// Looks until the wallet has so many calls without an answer; resolves to [[callId, request], ...].
async function pendingCalls(wallet, count) {
  for (;;) {
    const calls = Object.entries(await wallet.getAllCallRequests())
    if (calls.length >= count) {
      return calls.map(([callId, { data }]) => [callId, data])
    }
    await sleep(LOOK_EVERY_MS)
  }
}

// What a promise is rejected with.
async function failureOf(promise) {
  try {
    await promise
  } catch (error) {
    return error.message
  }
  throw new Error('It did not fail.')
}

module.exports = { openPage, scan, restoreWallet, pair, pendingCalls, failureOf }
