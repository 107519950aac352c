// The published client of generation 1.x, opposite the Python client: a wallet for its dapp, dapps for its wallets.
//
//     node v1_python_peers.js '{"bridge": URL, "uri": URI of a Python dapp}'
//
// Prints two lines of JSON: first the URIs of the two dapps, at the end what each of them has seen.
'use strict'

const { ACCOUNT, newDapp, newWallet, once, answerCalls, signAll } = require('./v1_parties')

const LARGE = 'x'.repeat(50 * 1024)

const failure = promise => promise.then(() => 'no failure', error => error.message)

// Approves, answers calls and refuses transactions, switches its chain after one, and is left.
async function beWallet(uri) {
  const { wallet, asked } = await newWallet(uri, 'safe')
  const over = once(wallet, 'disconnect')
  const calls = []
  answerCalls(wallet, ({ method, params }) => {
    calls.push(method)
    if (method !== 'eth_sendTransaction') return [method, params]
    setImmediate(() => wallet.updateSession({ chainId: 100, accounts: [ACCOUNT] }))
    return new Error('not today')
  })
  wallet.approveSession({ chainId: 5, accounts: [ACCOUNT] })
  await over
  return { asked: asked.peerMeta, calls, connected: wallet.connected }
}

// Has calls answered and a transaction refused, hears of an update, and is left.
async function beDapp({ dapp }) {
  const connected = await once(dapp, 'connect')
  const over = once(dapp, 'disconnect')
  const updated = once(dapp, 'session_update')
  const several = await Promise.all(await signAll(dapp, ['0x01', '0x02', '0x03']))
  const large = await dapp.sendCustomRequest({ method: 'eth_sign', params: [LARGE] })
  const refused = await failure(dapp.sendTransaction({ from: ACCOUNT, to: ACCOUNT, value: '0x1' }))
  const update = await updated
  await over
  return {
    accounts: connected.accounts,
    wallet: connected.peerMeta.name,
    several,
    large: large[1][0].length,
    refused,
    update,
    connected: dapp.connected
  }
}

async function main({ bridge, uri }) {
  const first = await newDapp(bridge, 'dapp')
  const second = await newDapp(bridge, 'rejected')
  const rejected = once(second.dapp, 'disconnect')
  console.log(JSON.stringify({ dapp: first.uri, rejected: second.uri }))
  const [asWallet, asDapp, rejection] = await Promise.all([beWallet(uri), beDapp(first), rejected])
  process.stdout.write(JSON.stringify({ asWallet, asDapp, rejection }) + '\n', () => process.exit(0))
}

main(JSON.parse(process.argv[2]))
