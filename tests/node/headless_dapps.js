// A dapp with the published client of one generation, opposite a headless wallet.
//
//     node headless_dapps.js '{"generation": "1.x", "bridge": URL, "calls": [[method, params], ...], "hanging": [method, params] or null}'
//
// Prints two lines of JSON: first the dapp's URI; at the end the accounts, what each call came to, and whether the
// call that was to hang was answered.
'use strict'

const outcome = promise => promise.then(
  result => ({ result }),
  error => ({ error: [error.code ?? null, error.message] })
)
const say = facts => console.log(JSON.stringify(facts))

async function dappOf07(bridge) {
  const { openPage } = require('./v07_clients')
  const { dapp } = openPage(`${bridge}/compat/v0.7`)
  await dapp.initSession()
  say({ uri: dapp.uri })
  await dapp.listenSessionStatus(20)
  const call = async (method, params) => {
    const { approved, result, error } = await dapp.createCallRequest({ method, params })
    if (approved) return result
    throw error
  }
  return { accounts: dapp.accounts, call, leave: async () => {} }
}

async function dappOf1(bridge) {
  const { newDapp, once } = require('./v1_parties')
  const { dapp, uri } = await newDapp(bridge)
  const connected = once(dapp, 'connect')
  say({ uri })
  const { accounts } = await connected
  let id = Date.now()
  const call = (method, params) => dapp.sendCustomRequest({ id: ++id, jsonrpc: '2.0', method, params })
  return { accounts, call, leave: () => dapp.killSession() }
}

async function dappOf2(bridge, methods) {
  process.env.IS_VITEST = 'true'
  require('./distinct_ids') // the call that hangs is made together with another
  globalThis.fetch = async url => { throw new Error(`the test reached out to ${url}`) }
  const { SignClient } = require('@walletconnect/sign-client')
  const client = await SignClient.init({
    relayUrl: bridge.replace('http', 'ws'), projectId: '0'.repeat(32), telemetryEnabled: false, logger: 'silent',
    metadata: { name: 'dapp', description: '', url: 'https://dapp.example', icons: [] }
  })
  const chainId = 'eip155:31337'
  const { uri, approval } = await client.connect({
    requiredNamespaces: { eip155: { chains: [chainId], methods, events: ['chainChanged'] } }
  })
  say({ uri })
  const { topic, namespaces } = await approval()
  const call = (method, params) => client.request({ topic, chainId, request: { method, params } })
  const leave = () => client.disconnect({ topic, reason: { code: 6000, message: 'over' } })
  return { accounts: namespaces.eip155.accounts.map(account => account.split(':')[2]), call, leave }
}

const OPENERS = { '0.7': dappOf07, '1.x': dappOf1, '2.x': dappOf2 }

async function main({ generation, bridge, calls, hanging }) {
  const methods = [...calls, hanging ?? []].map(([method]) => method).filter(Boolean)
  const { accounts, call, leave } = await OPENERS[generation](bridge, [...new Set(methods)])
  let answered = false
  if (hanging) outcome(call(...hanging)).then(() => { answered = true })
  const outcomes = []
  for (const asked of calls) outcomes.push(await outcome(call(...asked)))
  const facts = { accounts, outcomes, answered }
  await leave()
  process.stdout.write(JSON.stringify(facts) + '\n', () => process.exit(0))
}

main(JSON.parse(process.argv[2])).catch(error => { console.error(error); process.exit(1) })
