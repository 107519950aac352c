// What applications of generation 0.7 do, each from its beginning to its end. A scenario is given the bridge URL
// that these clients are pointed at, and the one of clients that speak the plain dialect.
'use strict'

const assert = require('node:assert/strict')
const http = require('node:http')
const { once } = require('node:events')

const { openPage, scan, restoreWallet, pair, pendingCalls, failureOf } = require('./v07_clients')

const ACCOUNT = '0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826'
const TRANSACTION = { from: ACCOUNT, to: ACCOUNT, value: '0x1', gas: '0x5208', data: '0x' }
const TYPED_DATA = { types: { Mail: [{ name: 'text', type: 'string' }] }, primaryType: 'Mail', message: { text: 'é' } }
const CALLS = [
  ['personal_sign', ['0x68656c6c6f', ACCOUNT]],
  ['eth_sign', [ACCOUNT, '0x68656c6c6f']],
  ['eth_signTypedData', [ACCOUNT, TYPED_DATA]],
  ['eth_sendTransaction', [TRANSACTION]],
  ['eth_signTransaction', [TRANSACTION]],
  ['eth_sendRawTransaction', ['0xf86c']]
]

async function pairingByUri({ bridgeUrl }) {
  const { dapp } = openPage(bridgeUrl, { dappName: 'Dapp Söhne' })
  await dapp.initSession()

  const wallet = scan(dapp.uri)

  assert.deepEqual(
    [wallet.bridgeUrl, wallet.sessionId, wallet.symKey, wallet.dappName],
    [bridgeUrl, dapp.sessionId, dapp.symKey, 'Dapp Söhne']
  )
  assert.ok(dapp.expires > Date.now())
  assert.equal(await dapp.getSessionStatus(), null)
}

async function approval({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl, { accounts: [ACCOUNT, '0xother'] })

  assert.deepEqual(dapp.accounts, [ACCOUNT, '0xother'])
  assert.ok(dapp.isConnected && wallet.isConnected)
  assert.ok(wallet.expires > Date.now())
  assert.equal(dapp.expires, wallet.expires)
}

async function rejection({ bridgeUrl }) {
  const { dapp, storage } = openPage(bridgeUrl)
  await dapp.initSession()
  const wallet = scan(dapp.uri)

  await wallet.rejectSession()

  assert.equal(await dapp.getSessionStatus(), null)
  assert.ok(!dapp.isConnected && !wallet.isConnected)
  const next = await openPage(bridgeUrl, { storage }).dapp.initSession()
  assert.notEqual(next.sessionId, dapp.sessionId)
}

async function rejectionAfterApproval({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl)

  await wallet.rejectSession()

  assert.equal(await dapp.getSessionStatus(), null)
  assert.equal(dapp.isConnected, false)
}

async function eachMethod({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl)

  const results = CALLS.map(([method, params]) => dapp.createCallRequest({ method, params }))
  for (const [callId, request] of await pendingCalls(wallet, CALLS.length)) {
    await wallet.approveCallRequest(callId, { result: [request.method, request.params] })
  }

  assert.deepEqual(
    (await Promise.all(results)).map(({ approved, result }) => [approved, result]),
    CALLS.map(call => [true, call])
  )
}

async function theDappsOwnMethods({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl)

  const results = [
    dapp.sendTransaction(TRANSACTION),
    dapp.signMessage([ACCOUNT, '0x68656c6c6f']),
    dapp.signTypedData([ACCOUNT, TYPED_DATA])
  ]
  for (const [callId, request] of await pendingCalls(wallet, results.length)) {
    await wallet.approveCallRequest(callId, { result: `done: ${request.method}` })
  }

  assert.deepEqual((await Promise.all(results)).sort(), [
    'done: eth_sendTransaction',
    'done: eth_sign',
    'done: eth_signTypedData'
  ])
}

async function rejectedCall({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl)

  const failure = failureOf(dapp.signMessage([ACCOUNT, '0x00']))
  const [[callId]] = await pendingCalls(wallet, 1)
  await wallet.rejectCallRequest(callId)

  assert.equal(await failure, 'Rejected: Signed Message Request')
}

async function severalPendingCalls({ bridgeUrl }) {
  const { dapp, wallet } = await pair(bridgeUrl)
  assert.deepEqual(await wallet.getAllCallRequests(), {})

  const results = []
  for (let number = 0; number < 5; number++) {
    results.push(dapp.createCallRequest({ method: 'personal_sign', params: [number] }))
    await pendingCalls(wallet, number + 1)
  }
  const pending = await pendingCalls(wallet, 5)
  assert.deepEqual(pending.map(([, request]) => request.params), [[0], [1], [2], [3], [4]])
  for (const [callId] of pending.reverse()) {
    const { data, expires } = await wallet.getCallRequest(callId)
    assert.ok(expires > Date.now())
    await wallet.approveCallRequest(callId, { result: data.params[0] * 10 })
  }

  assert.deepEqual((await Promise.all(results)).map(({ result }) => result), [0, 10, 20, 30, 40])
  assert.deepEqual(await wallet.getAllCallRequests(), {})
}

async function wokenByPush({ bridgeUrl }) {
  const pushServer = http.createServer().listen(0, '127.0.0.1')
  await once(pushServer, 'listening')
  const webhook = `http://127.0.0.1:${pushServer.address().port}/notification/new`
  const { dapp, wallet } = await pair(bridgeUrl, { push: { type: 'fcm', token: 'device', webhook } })

  const result = dapp.signMessage([ACCOUNT, '0x68656c6c6f'])
  const [request, response] = await once(pushServer, 'request')
  const notice = JSON.parse((await request.toArray()).join(''))
  response.end()
  const call = await wallet.getCallRequest(notice.callId)
  await wallet.approveCallRequest(notice.callId, { result: `done: ${call.data.method}` })

  const { callId, ...others } = notice
  assert.deepEqual(others, {
    sessionId: dapp.sessionId,
    pushType: 'fcm',
    pushToken: 'device',
    dappName: 'Example Dapp'
  })
  assert.equal(await result, 'done: eth_sign')
  pushServer.close()
}

async function killedByTheWallet({ bridgeUrl }) {
  const { dapp, storage, wallet, session } = await pair(bridgeUrl)
  const pending = failureOf(dapp.signMessage([ACCOUNT, '0x00']))
  await pendingCalls(wallet, 1)

  await wallet.killSession()

  assert.equal(wallet.isConnected, false)
  assert.equal(await pending, 'Not Found')
  assert.equal(await failureOf(dapp.signMessage([ACCOUNT, '0x01'])), 'Not Found')
  assert.equal(await failureOf(wallet.getAllCallRequests()), 'Not Found')
  await restoreWallet(session).killSession()
  const reloaded = openPage(bridgeUrl, { storage }).dapp
  await reloaded.initSession()
  assert.notEqual(reloaded.sessionId, dapp.sessionId)
  assert.equal(reloaded.isConnected, false)
}

async function killedByTheDapp({ bridgeUrl }) {
  const { dapp, storage } = await pair(bridgeUrl)
  const { sessionId } = dapp

  dapp.killSession()

  assert.equal(dapp.isConnected, false)
  const next = await openPage(bridgeUrl, { storage }).dapp.initSession()
  assert.notEqual(next.sessionId, sessionId)
}

async function reloaded({ bridgeUrl }) {
  const { dapp, storage, wallet, session } = await pair(bridgeUrl)
  await wallet.approveSession({ accounts: [ACCOUNT] })

  const page = openPage(bridgeUrl, { storage }).dapp
  await page.initSession()
  const walletAgain = restoreWallet(session)
  const result = page.signMessage([ACCOUNT, '0x00'])
  const [[callId]] = await pendingCalls(walletAgain, 1)
  await walletAgain.approveCallRequest(callId, { result: '0x99' })

  assert.ok(page.isConnected)
  assert.equal(page.sessionId, dapp.sessionId)
  assert.deepEqual(page.accounts, [ACCOUNT])
  assert.equal(await result, '0x99')
}

async function twoDappsAndTwoWallets({ bridgeUrl }) {
  const names = ['first', 'second']
  const pairs = await Promise.all(names.map(name => pair(bridgeUrl, { accounts: [name], dappName: name })))

  const results = pairs.map(({ dapp }) => dapp.signMessage([dapp.accounts[0], '0x00']))
  await Promise.all(
    pairs.map(async ({ wallet }) => {
      const [[callId, request], ...others] = await pendingCalls(wallet, 1)
      assert.deepEqual(others, [])
      await wallet.approveCallRequest(callId, { result: `signed by ${request.params[0]}` })
    })
  )

  assert.deepEqual(await Promise.all(results), ['signed by first', 'signed by second'])
}

async function plainRequest(method, url, body) {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(url, { method, headers, body: JSON.stringify(body) })
  assert.equal(response.status, 200)
  return response.json()
}

async function aPlainWallet({ bridgeUrl, plainUrl }) {
  const { dapp } = openPage(bridgeUrl)
  await dapp.initSession()
  const { encrypt, decrypt } = { encrypt: data => dapp.encrypt(data), decrypt: text => dapp.decrypt(text).data }
  const session = `${plainUrl}/session/${dapp.sessionId}`

  const approval = { approved: true, accounts: [ACCOUNT] }
  await plainRequest('PUT', session, { encryptionPayload: await encrypt(approval) })
  await dapp.listenSessionStatus()
  const result = dapp.createCallRequest({ method: 'personal_sign', params: ['0x00', ACCOUNT] })
  let calls = {}
  while (Object.keys(calls).length === 0) {
    calls = await plainRequest('GET', `${session}/calls?wait=5`)
  }
  const [[callId, { encryptionPayload }]] = Object.entries(calls)
  const answer = { approved: true, result: decrypt(encryptionPayload).method }
  await plainRequest('POST', `${plainUrl}/call-status/${callId}/new`, { encryptionPayload: await encrypt(answer) })

  assert.deepEqual(dapp.accounts, [ACCOUNT])
  assert.deepEqual(await result, answer)
}

async function aPlainDapp({ bridgeUrl, plainUrl }) {
  const { sessionId } = await plainRequest('POST', `${plainUrl}/session/new`)
  const symKey = Buffer.alloc(32, 7).toString('base64')
  const wallet = scan(`ethereum:wc-${sessionId}@1?name=Plain&bridge=${encodeURIComponent(bridgeUrl)}&symKey=${symKey}`)
  const session = `${plainUrl}/session/${sessionId}`

  await wallet.approveSession({ accounts: [ACCOUNT] })
  const approval = await plainRequest('GET', session)
  const encryptionPayload = await wallet.encrypt({ method: 'eth_sign', params: [ACCOUNT, '0x00'] })
  const { callId } = await plainRequest('POST', `${session}/call/new`, { encryptionPayload, dappName: 'Plain' })
  const [[pending, request]] = await pendingCalls(wallet, 1)
  await wallet.approveCallRequest(pending, { result: request.method })
  const status = await plainRequest('GET', `${plainUrl}/call-status/${callId}`)

  assert.equal(pending, callId)
  assert.deepEqual(wallet.decrypt(approval.encryptionPayload).data, { accounts: [ACCOUNT], approved: true })
  assert.deepEqual(wallet.decrypt(status.encryptionPayload).data, { approved: true, result: 'eth_sign' })
}

module.exports = {
  'pairing by URI': pairingByUri,
  approval,
  rejection,
  'rejection after approval': rejectionAfterApproval,
  'a call of each method': eachMethod,
  "the dapp's own methods": theDappsOwnMethods,
  'a call that is rejected': rejectedCall,
  'several pending calls': severalPendingCalls,
  'a wallet woken by a push': wokenByPush,
  'a session killed by the wallet': killedByTheWallet,
  'a session killed by the dapp': killedByTheDapp,
  'both sides reloaded': reloaded,
  'two dapps and two wallets': twoDappsAndTwoWallets,
  'a plain wallet': aPlainWallet,
  'a plain dapp': aPlainDapp
}
