// The published clients of generation 0.7, opposite the Python client: a wallet for its dapp, a dapp for its wallet.
//
//     node python_peers.js '{"bridge": URL, "uri": URI of a Python dapp, "pairings": [URI, ...]}'
//
// Prints two lines of JSON: first the dapp's URI, at the end what each of them has seen.
'use strict'

const { failureOf, openPage, pendingCalls, scan } = require('./v07_clients.js')

const LOOK_EVERY_MS = 20
const ACCOUNT = '0x5409ed021d9299bf6814279a6a1411a7e866a631'

// Approves, answers one call with what it asked for, and refuses the other.
async function beWallet(uri) {
  const wallet = scan(uri)
  await wallet.approveSession({ accounts: [ACCOUNT], chainId: 5 })
  const [[firstId, first], [secondId]] = await pendingCalls(wallet, 2)
  await wallet.approveCallRequest(firstId, { result: [first.method, first.params] })
  await wallet.rejectCallRequest(secondId)
  return { dappName: wallet.dappName, request: first }
}

// Has a transaction sent, and a signature refused.
async function beDapp(dapp) {
  await dapp.listenSessionStatus(LOOK_EVERY_MS)
  const result = await dapp.sendTransaction({ from: ACCOUNT, value: '0x1' })
  const failure = await failureOf(dapp.signMessage([ACCOUNT, '0x68656c6c6f']))
  return { accounts: dapp.accounts, result, failure }
}

function read(uri) {
  const { bridgeUrl, sessionId, symKey, dappName } = scan(uri)
  return [bridgeUrl, sessionId, symKey, dappName]
}

async function main({ bridge, uri, pairings }) {
  const { dapp } = openPage(bridge)
  await dapp.initSession()
  console.log(JSON.stringify({ uri: dapp.uri }))
  const [asWallet, asDapp] = await Promise.all([beWallet(uri), beDapp(dapp)])
  console.log(JSON.stringify({ asWallet, asDapp, readings: pairings.map(read) }))
}

main(JSON.parse(process.argv[2]))
