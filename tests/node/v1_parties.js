// Dapps and wallets as applications make them with the published client of generation 1.x.

const { default: Connector } = require('@walletconnect/client')

const PATIENCE_MS = 120_000
const ACCOUNT = '0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826'

const meta = name => ({ name, description: '', url: `https://${name}.example`, icons: [] })

function within (promise, what) {
  const timeout = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`nothing came of: ${what}`)), PATIENCE_MS).unref()
  })
  return Promise.race([promise, timeout])
}

function once (connector, event) {
  return within(new Promise(resolve => {
    connector.on(event, (error, payload) => resolve(error ? { error: error.message } : payload.params[0]))
  }), event)
}

/** A dapp that shows its URI. */
async function newDapp (bridge, name = 'dapp') {
  const dapp = new Connector({ bridge, clientMeta: meta(name) })
  const shown = once(dapp, 'display_uri')
  await dapp.createSession()
  return { dapp, uri: await shown }
}

/** The URI with the server that wallets are to use, if it is another than the dapps'. */
const atWalletsServer = uri => process.env.WALLET_URL
  ? uri.replace(/bridge=[^&]*/, `bridge=${encodeURIComponent(process.env.WALLET_URL)}`)
  : uri

/** A wallet that scans the URI, and has been asked for a session. */
async function newWallet (uri, name = 'wallet') {
  const wallet = new Connector({ uri: atWalletsServer(uri), clientMeta: meta(name) })
  return { wallet, asked: await once(wallet, 'session_request') }
}

/** Answers calls with what `answer` returns for each: a result, an Error, or nothing yet. */
function answerCalls (wallet, answer) {
  wallet.on('call_request', (error, request) => {
    if (error) throw error
    const result = answer(request)
    if (result instanceof Error) wallet.rejectRequest({ id: request.id, error: { message: result.message } })
    else if (result !== undefined) wallet.approveRequest({ id: request.id, result })
  })
}

/** A dapp and a wallet with a session. */
async function pair (bridge, account = ACCOUNT) {
  const { dapp, uri } = await newDapp(bridge)
  const connected = once(dapp, 'connect')
  const { wallet } = await newWallet(uri)
  wallet.approveSession({ chainId: 1, accounts: [account] })
  await connected
  return { dapp, wallet }
}

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

/** Returns once the client's socket is in that state. */
async function until (connector, state) {
  while (!connector._transport[state]) await pause(5)
}

/** The wallet's app is closed. What comes while its socket closes, the client would acknowledge and drop. */
async function leave (wallet) {
  wallet.transportClose()
  await until(wallet, 'closed')
}

/** Asks for a signature of each message, and returns the promises. The client gives two calls of one
 *  millisecond the same id now and then. */
async function signAll (dapp, messages) {
  const answers = []
  for (const message of messages) {
    answers.push(dapp.signMessage([ACCOUNT, message]))
    await pause(2)
  }
  return answers
}

/** Runs the scenes one after the other; prints one JSON object with what each has returned. */
async function play (scenes) {
  const results = {}
  for (const [name, scene] of Object.entries(scenes)) {
    try {
      results[name] = await within(scene(), name)
    } catch (error) {
      results[name] = { failed: String(error && error.stack || error) }
    }
  }
  process.stdout.write(JSON.stringify(results) + '\n', () => process.exit(0))
}

module.exports = {
  ACCOUNT, Connector, answerCalls, leave, newDapp, newWallet, once, pair, play, signAll, until, within
}
