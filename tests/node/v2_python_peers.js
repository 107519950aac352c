// The published clients of generation 2.x, opposite the Python client: a walletkit for its dapp, a sign-client and
// an ethereum-provider for its wallets.
//
//     node v2_python_peers.js '{"relay": URL, "uri": URI of a Python dapp}'
//
// Prints two lines of JSON: first the URIs of the two dapps, at the end what each of them has seen.
'use strict'

process.env.IS_VITEST = 'true' // a wallet asks the Verify service otherwise, which is not on this machine
require('./distinct_ids')
globalThis.fetch = async url => { throw new Error(`the test reached out to ${url}`) }

const { createRequire } = require('node:module')
const { WalletKit } = require('@reown/walletkit')
const { SignClient } = require('@walletconnect/sign-client')
const { EthereumProvider } = require('@walletconnect/ethereum-provider')

// Beside the packages of generation 1.x, this one lies with the package that needs it.
const { Core } = createRequire(require.resolve('@reown/walletkit'))('@walletconnect/core')

const ACCOUNT = '0x5409ed021d9299bf6814279a6a1411a7e866a631'
const LARGE = 'x'.repeat(100 * 1024)
const EVENTS = ['chainChanged', 'accountsChanged']
const METHODS = ['personal_sign', 'eth_sign', 'eth_sendTransaction']

const metadata = name => ({ name, description: '', url: `https://${name}.example`, icons: [] })
const options = (relay, name) => ({
  relayUrl: relay, projectId: '0'.repeat(32), telemetryEnabled: false, customStoragePrefix: name, logger: 'silent'
})
const once = (emitter, event) => new Promise(resolve => emitter.once(event, resolve))
const failure = promise => promise.then(() => 'no failure', error => [error.code, error.message])

function namespaces(chain, account = ACCOUNT) {
  return { eip155: { chains: [chain], accounts: [`${chain}:${account}`], methods: METHODS, events: EVENTS } }
}

// Approves the Python dapp's session, answers its calls until it leaves; then meets a dapp and says no.
async function beWallet(relay, uri) {
  const core = new Core(options(relay, 'walletkit'))
  const kit = await WalletKit.init({ core, metadata: metadata('walletkit') })
  const seen = { calls: [] }
  const proposed = once(kit, 'session_proposal')
  const over = once(kit, 'session_delete')
  await kit.pair({ uri })
  const { id, params } = await proposed
  seen.proposer = params.proposer.metadata
  kit.on('session_request', async ({ topic, id, params: { request, chainId } }) => {
    seen.calls.push([request.method, chainId])
    const refusal = { id, jsonrpc: '2.0', error: { code: 4001, message: 'not today' } }
    const answer = { id, jsonrpc: '2.0', result: [request.method, request.params] }
    const last = request.method === 'eth_sendTransaction'
    if (last) seen.pinged = await kit.engine.signClient.ping({ topic }).then(() => true)
    await kit.respondSessionRequest({ topic, response: request.method === 'eth_sign' ? refusal : answer })
    if (last) {
      await kit.emitSessionEvent({ topic, chainId, event: { name: 'accountsChanged', data: [ACCOUNT] } })
      await kit.updateSession({ topic, namespaces: namespaces('eip155:137') })
      await kit.extendSession({ topic })
    }
  })
  await kit.approveSession({ id, namespaces: namespaces('eip155:5') })
  await over
  return { ...seen, sessions: Object.keys(kit.getActiveSessions()).length }
}

// Asks for a session; `said` is told the URI.
async function connect(client, said) {
  const { uri, approval } = await client.connect({ optionalNamespaces: namespaces('eip155:1') })
  said(uri)
  return approval()
}

async function beDapp(relay, said) {
  const client = await SignClient.init({ ...options(relay, 'dapp'), metadata: metadata('dapp') })
  const session = await connect(client, said)
  const { topic } = session
  const over = once(client, 'session_delete')
  const ask = (method, params) => client.request({ topic, chainId: 'eip155:1', request: { method, params } })
  const event = once(client, 'session_event')
  const update = once(client, 'session_update')
  const extension = once(client, 'session_extend')
  const several = await Promise.all([1, 2, 3, 4, 5].map(number => ask('personal_sign', [number])))
  const large = await ask('personal_sign', [LARGE])
  const refused = await failure(ask('eth_sign', []))
  await client.ping({ topic })
  await ask('eth_sendTransaction', [{}])
  const { event: { name, data }, chainId } = (await event).params
  const { params } = await update
  await extension
  await over
  return {
    accounts: session.namespaces.eip155.accounts,
    wallet: session.peer.metadata.name,
    several,
    large: large[1][0].length,
    refused,
    event: [name, data, chainId],
    update: params.namespaces.eip155.accounts,
    sessions: client.session.getAll().length
  }
}

async function beRejected(relay, said) {
  const client = await SignClient.init({ ...options(relay, 'rejected'), metadata: metadata('rejected') })
  return failure(connect(client, said))
}

async function beProvider(relay, said) {
  const provider = await EthereumProvider.init({
    ...options(relay, 'provider'),
    metadata: metadata('provider'),
    showQrModal: false,
    optionalChains: [1],
    rpcMap: { 1: 'http://127.0.0.1:9' }
  })
  provider.once('display_uri', said)
  await provider.connect()
  const signed = await provider.request({ method: 'personal_sign', params: ['0x68656c6c6f', provider.accounts[0]] })
  const refused = await failure(provider.request({ method: 'eth_sign', params: [] }))
  const { accounts, chainId } = provider
  await provider.disconnect()
  return { accounts, chainId, signed, refused }
}

// Starts the parties; prints the URIs once all of them are there.
async function main({ relay, uri }) {
  const uris = {}
  const shown = []
  const party = (name, be) => {
    let said
    shown.push(new Promise(resolve => { said = uri => { uris[name] = uri; resolve() } }))
    return be(relay, said)
  }
  const parties = [beWallet(relay, uri), party('dapp', beDapp), party('rejected', beRejected), party('provider', beProvider)]
  await Promise.all(shown)
  console.log(JSON.stringify(uris))
  const [asWallet, asDapp, rejected, asProvider] = await Promise.all(parties)
  process.stdout.write(JSON.stringify({ asWallet, asDapp, rejected, asProvider }) + '\n', () => process.exit(0))
}

main(JSON.parse(process.argv[2])).catch(error => { console.error(error); process.exit(1) })
