// A session that outlives a server: node v1_restart.js BRIDGE_URL
// Prints `waiting` when two calls wait for the wallet; a line on standard input says that the server is back.

const readline = require('node:readline')
const { ACCOUNT, answerCalls, leave, pair, play, signAll, until } = require('./v1_parties')

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

play({
  async restart () {
    const { dapp, wallet } = await pair(process.argv[2])
    answerCalls(wallet, request => request.params[1])
    const before = await dapp.signMessage([ACCOUNT, '0x01'])
    await leave(wallet)
    const waiting = await signAll(dapp, ['0x02', '0x03'])
    console.log('waiting')
    await lines.next()
    wallet.updateSession({ chainId: 100, accounts: [ACCOUNT] }) // which connects the wallet again
    const answered = await Promise.all(waiting)
    await until(dapp, 'connected') // a call made just before that, the client would lose now and then
    return { before, answered, after: await dapp.signMessage([ACCOUNT, '0x04']), chain: dapp.chainId }
  }
})
