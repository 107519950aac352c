// Twelve dapps and twelve wallets of generation 2.x at once: node v2_crowd.js RELAY_URL

const { pair, play, sign } = require('./v2_parties')

const relay = process.argv[2]
const numbers = Array.from({ length: 12 }, (_, number) => number)

play({
  async twelvePairs () {
    const pairs = await Promise.all(numbers.map(() => pair(relay)))
    return Promise.all(pairs.map((paired, number) => sign(paired, `0x${number}`)))
  }
})
