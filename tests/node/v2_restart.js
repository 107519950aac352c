// A session that outlives a server: node v2_restart.js RELAY_URL
// Prints `waiting` when two calls wait for the wallet; a line on standard input says that the server is back.

const readline = require('node:readline')
const { comeBack, leave, pair, play, sign } = require('./v2_parties')

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

play({
  async restart () {
    const paired = await pair(process.argv[2])
    const before = await sign(paired, '0x01')
    await leave(paired.wallet)
    const answers = Promise.all(['0x02', '0x03'].map(message => sign(paired, message)))
    await new Promise(resolve => setTimeout(resolve, 500))
    console.log('waiting')
    await lines.next()
    await comeBack(paired.wallet)
    return { before, answered: await answers, after: await sign(paired, '0x04') }
  }
})
