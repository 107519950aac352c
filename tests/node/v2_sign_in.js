// The published clients of generation 2.x that sign in, opposite the Python client: a sign-client as each kind of wallet
// for its dapps, and as each kind of dapp for its wallets.
//
//     node v2_sign_in.js '{"relay": URL, "proposal": URI, "oneClick": URI, "refused": URI}'
//
// Prints two lines of JSON: first the URIs of the dapps, at the end what each party has seen.
'use strict'

const { createRequire } = require('node:module')
const { newDapp, newWallet, once, within } = require('./v2_parties.js')

globalThis.fetch = async url => { throw new Error(`the test reached out to ${url}`) }

// They lie beside the client that needs them.
const beside = createRequire(require.resolve('@walletconnect/sign-client'))
const utils = beside('@walletconnect/utils')
const { Secp256k1, Signature, Hash, Hex, Address } = createRequire(beside.resolve('@walletconnect/utils'))('ox')

const PRIVATE_KEY = `0x${'00'.repeat(31)}09`
const ADDRESS = Address.fromPublicKey(Secp256k1.getPublicKey({ privateKey: PRIVATE_KEY }))
const ISSUER = `eip155:1:${ADDRESS}`
const METHODS = ['personal_sign', 'eth_sign']

const failure = promise => promise.then(() => 'no failure', error => error.message ?? error)

function sign (message) {
  const text = Buffer.from(message)
  const payload = Hash.keccak256(Hex.fromBytes(Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${text.length}`), text])))
  return { t: 'eip191', s: Signature.toHex(Secp256k1.sign({ payload, privateKey: PRIVATE_KEY })) }
}

function cacaoOf (wallet, request) {
  return utils.buildAuthObject(request, sign(wallet.formatAuthMessage({ request, iss: ISSUER })), ISSUER)
}

// Approves a proposal together with its authentication.
async function approveProposal (relay, uri) {
  const wallet = await newWallet(relay)
  const proposed = once(wallet, 'session_proposal')
  await wallet.pair({ uri })
  const { id, params } = await proposed
  const [request] = params.requests.authentication
  const namespaces = { eip155: { accounts: [ISSUER], methods: METHODS, events: ['chainChanged'] } }
  const authentication = [cacaoOf(wallet, request)]
  await wallet.approve({ id, namespaces, proposalRequestsResponses: { authentication } })
  await once(wallet, 'session_delete')
  return { statement: request.statement }
}

// Answers wc_sessionAuthenticate with its signature.
async function authenticate (relay, uri) {
  const wallet = await newWallet(relay)
  const asked = once(wallet, 'session_authenticate')
  await wallet.pair({ uri })
  const { id, params } = await asked
  const request = utils.populateAuthPayload({ authPayload: params.authPayload, chains: ['eip155:1'], methods: METHODS })
  await wallet.approveSessionAuthenticate({ id, auths: [cacaoOf(wallet, request)] })
  await once(wallet, 'session_delete')
  return { statement: request.statement }
}

// Rejects wc_sessionAuthenticate.
async function refuse (relay, uri) {
  const wallet = await newWallet(relay)
  const asked = once(wallet, 'session_authenticate')
  await wallet.pair({ uri })
  const { id } = await asked
  await wallet.rejectSessionAuthenticate({ id, reason: { code: 5000, message: 'User rejected.' } })
}

const asking = nonce => ({
  domain: 'dapp.example', chains: ['eip155:1'], nonce, uri: 'https://dapp.example/login', statement: 'Sign in.'
})

// Connects with an authentication, and checks the answer as a dapp's server does.
async function beDapp (relay, said) {
  const dapp = await newDapp(relay)
  const request = asking('firstnonce')
  const { uri, approval } = await dapp.connect({
    optionalNamespaces: { eip155: { chains: ['eip155:1'], methods: METHODS, events: ['chainChanged'] } },
    authentication: [request]
  })
  said(uri)
  const session = await within(approval(), 'approval')
  const [cacao] = session.authentication
  const valid = await utils.validateSignedCacao({ cacao })
  const bound = utils.isCacaoBoundToRequest({ cacao, request })
  const signed = await ask(dapp, session.topic)
  return { issuer: cacao.p.iss, valid, bound, signed }
}

async function beOneClick (relay, said, nonce) {
  const dapp = await newDapp(relay)
  const { uri, response } = await dapp.authenticate({ ...asking(nonce), methods: METHODS })
  said(uri)
  const { auths, session } = await within(response(), 'response')
  const signed = await ask(dapp, session.topic)
  return { issuer: auths?.[0].p.iss, methods: session.namespaces.eip155.methods, signed }
}

async function ask (dapp, topic) {
  const request = { method: 'personal_sign', params: ['0x00'] }
  const signed = await within(dapp.request({ topic, chainId: 'eip155:1', request }), 'signature')
  await dapp.disconnect({ topic, reason: { code: 6000, message: 'done' } })
  return signed
}

async function beRejected (relay, said) {
  const dapp = await newDapp(relay)
  const { uri, response } = await dapp.authenticate({ ...asking('thirdnonce'), methods: METHODS })
  said(uri)
  return failure(within(response(), 'response'))
}

async function main ({ relay, proposal, oneClick, refused }) {
  const uris = {}
  const shown = []
  const party = (name, be, ...more) => {
    let said
    shown.push(new Promise(resolve => { said = uri => { uris[name] = uri; resolve() } }))
    return be(relay, said, ...more)
  }
  const parties = {
    proposed: approveProposal(relay, proposal),
    authenticated: authenticate(relay, oneClick),
    refused: refuse(relay, refused),
    dapp: party('dapp', beDapp),
    oneClick: party('oneClick', beOneClick, 'secondnonce'),
    withoutSignIn: party('withoutSignIn', beOneClick, 'fourthnonce'),
    rejected: party('rejected', beRejected)
  }
  await Promise.all(shown)
  console.log(JSON.stringify(uris))
  const seen = {}
  for (const [name, promise] of Object.entries(parties)) seen[name] = await promise
  process.stdout.write(JSON.stringify(seen) + '\n', () => process.exit(0))
}

main(JSON.parse(process.argv[2])).catch(error => { console.error(error); process.exit(1) })
