// Lives through a restart of the server: node v07_restart.js BRIDGE_URL. Says "paired" when a call is pending and
// waits for a line: the server has been restarted. Then dapp and wallet, both restarted too, go on where they were.
'use strict'

const assert = require('node:assert/strict')
const { once } = require('node:events')

const { openPage, restoreWallet, pair, pendingCalls } = require('./v07_clients')

async function main(bridgeUrl) {
  const before = await pair(bridgeUrl, { accounts: ['0xabc1'] })
  before.dapp.signMessage(['0xabc1', '0x01']).catch(() => {}) // its page is reloaded before there is an answer
  const [[callId]] = await pendingCalls(before.wallet, 1)
  console.log('paired')
  await once(process.stdin, 'data')

  const { dapp } = openPage(bridgeUrl, { storage: before.storage })
  await dapp.initSession()
  assert.ok(dapp.isConnected)
  assert.deepEqual(dapp.accounts, ['0xabc1'])

  const wallet = restoreWallet(before.session)
  const [[pending, request]] = await pendingCalls(wallet, 1)
  assert.equal(pending, callId)
  assert.deepEqual(request.params, ['0xabc1', '0x01'])
  await wallet.approveCallRequest(callId, { result: '0x99' })
  assert.deepEqual(await dapp.listenCallStatus(callId), { approved: true, result: '0x99' })

  const next = dapp.signMessage(['0xabc1', '0x02'])
  const [[nextId]] = await pendingCalls(wallet, 1)
  await wallet.approveCallRequest(nextId, { result: '0x9a' })
  assert.equal(await next, '0x9a')
  await wallet.killSession()
}

main(process.argv[2]).then(
  () => process.exit(0), // the clients may still be polling
  error => {
    console.error(error)
    process.exit(1)
  }
)
