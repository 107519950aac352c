// Dapps and wallets as applications make them with the published clients of generation 2.x. They reach nothing
// outside this machine: no telemetry, and IS_VITEST keeps wallets from asking the Verify service about dapps.

process.env.IS_VITEST = 'true'
require('./distinct_ids')

const { SignClient } = require('@walletconnect/sign-client')
const { EthereumProvider } = require('@walletconnect/ethereum-provider')
const { WalletKit } = require('@reown/walletkit')
const { Core } = require(require.resolve('@walletconnect/core', { paths: [require.resolve('@reown/walletkit')] }))

const PATIENCE_MS = 120_000
const ACCOUNT = '0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826'
const CHAIN = 'eip155:1'

let stores = 0

const meta = name => ({ name, description: '', url: `https://${name}.example`, icons: [] })

/** What every client is made with; each has a store of its own, in memory. */
const options = (relayUrl, name) => ({
  relayUrl,
  projectId: 'p'.repeat(32),
  metadata: meta(name),
  telemetryEnabled: false,
  logger: 'silent',
  customStoragePrefix: `${name}-${++stores}`,
  storageOptions: { database: ':memory:' }
})

const namespaces = (chains = [CHAIN]) => ({
  eip155: {
    accounts: chains.map(chain => `${chain}:${ACCOUNT}`),
    methods: ['personal_sign', 'eth_sendTransaction'],
    events: ['chainChanged', 'accountsChanged']
  }
})

function within (promise, what) {
  const timeout = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`nothing came of: ${what}`)), PATIENCE_MS).unref()
  })
  return Promise.race([promise, timeout])
}

const once = (client, event) => within(new Promise(resolve => client.once(event, resolve)), event)

/** A dapp of sign-client. */
const newDapp = relayUrl => SignClient.init(options(relayUrl, 'dapp'))

/** The server that wallets are to use, if it is another than the dapps'. */
const walletsServer = relayUrl => process.env.WALLET_URL ?? relayUrl

/** A wallet of sign-client that answers requests with what `answer` returns for each. */
async function newWallet (relayUrl, answer = echo) {
  const wallet = await SignClient.init(options(walletsServer(relayUrl), 'wallet'))
  wallet.on('session_request', ({ id, topic, params }) => {
    wallet.respond({ topic, response: { id, jsonrpc: '2.0', ...answer(params.request) } })
  })
  return wallet
}

/** A wallet of walletkit that answers requests likewise. */
async function newWalletKit (relayUrl, answer = echo) {
  const { metadata, ...rest } = options(walletsServer(relayUrl), 'kit')
  const kit = await WalletKit.init({ core: new Core(rest), metadata })
  kit.on('session_request', ({ id, topic, params }) => {
    kit.respondSessionRequest({ topic, response: { id, jsonrpc: '2.0', ...answer(params.request) } })
  })
  return kit
}

/** A dapp of ethereum-provider. */
const newProvider = relayUrl => EthereumProvider.init({
  ...options(relayUrl, 'provider'),
  optionalChains: [1, 5],
  rpcMap: { 1: `${relayUrl.replace('ws', 'http')}/rpc`, 5: `${relayUrl.replace('ws', 'http')}/rpc` },
  showQrModal: false
})

const echo = request => ({ result: request.params[0] })

/** A URI that the wallet scans, and the session that the dapp waits for. */
const propose = dapp => dapp.connect({
  optionalNamespaces: {
    eip155: { chains: [CHAIN, 'eip155:5'], methods: ['personal_sign', 'eth_sendTransaction'], events: ['chainChanged'] }
  }
})

/** A dapp and a wallet with a session. */
async function pair (relayUrl, dapp, wallet) {
  dapp ??= await newDapp(relayUrl)
  wallet ??= await newWallet(relayUrl)
  const { uri, approval } = await propose(dapp)
  const proposed = once(wallet, 'session_proposal')
  await wallet.pair({ uri })
  const { id } = await proposed
  const { acknowledged } = await wallet.approve({ id, namespaces: namespaces() })
  const session = await within(approval(), 'approval')
  await within(acknowledged(), 'settlement')
  return { dapp, wallet, topic: session.topic, session }
}

/** What the wallet answers to a message to sign. */
const sign = ({ dapp, topic }, message) => within(dapp.request({
  topic, chainId: CHAIN, request: { method: 'personal_sign', params: [message, ACCOUNT] }
}), `a signature of ${message.slice(0, 20)}`)

/** The wallet's app is closed for a while. */
const leave = wallet => wallet.core.relayer.transportClose()
const comeBack = wallet => wallet.core.relayer.transportOpen()

/** Runs the scenes one after the other; prints one JSON object with what each has returned. */
async function play (scenes) {
  const results = {}
  for (const [name, scene] of Object.entries(scenes)) {
    try {
      results[name] = await within(scene(), name)
    } catch (error) {
      results[name] = { failed: String(error && error.stack || JSON.stringify(error)) }
    }
  }
  process.stdout.write(JSON.stringify(results) + '\n', () => process.exit(0))
}

module.exports = {
  ACCOUNT, CHAIN, comeBack, leave, namespaces, newDapp, newProvider, newWallet, newWalletKit, once, pair, play, propose,
  sign, within
}
