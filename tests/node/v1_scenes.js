// What dapps and wallets of generation 1.x do with each other: node v1_scenes.js BRIDGE_URL

const {
  ACCOUNT, Connector, answerCalls, leave, newDapp, newWallet, once, pair, play, signAll, within
} = require('./v1_parties')

const bridge = process.argv[2]
const TRANSACTION = { from: ACCOUNT, to: ACCOUNT, data: '0x', value: '0x1' }

play({
  async pairing () {
    const { dapp, uri } = await newDapp(bridge, 'exchange')
    const connected = once(dapp, 'connect')
    const { wallet, asked } = await newWallet(uri, 'safe')
    wallet.approveSession({ chainId: 5, accounts: [ACCOUNT] })
    return { uri: uri.split('@')[1].split('&key')[0], asked: asked.peerMeta.name, connected: await connected }
  },

  async rejection () {
    const { dapp, uri } = await newDapp(bridge)
    const disconnected = once(dapp, 'disconnect')
    const { wallet } = await newWallet(uri)
    wallet.rejectSession({ message: 'not today' })
    return { disconnected: await disconnected, connected: dapp.connected }
  },

  async methods () {
    const { dapp, wallet } = await pair(bridge)
    answerCalls(wallet, request => request.method)
    return [
      await dapp.signPersonalMessage(['0x68656c6c6f', ACCOUNT]),
      await dapp.signMessage([ACCOUNT, '0x68656c6c6f']),
      await dapp.signTypedData([ACCOUNT, '{}']),
      await dapp.sendTransaction(TRANSACTION),
      await dapp.signTransaction(TRANSACTION),
      await dapp.sendCustomRequest({ method: 'eth_sendRawTransaction', params: ['0x00'] })
    ]
  },

  async refusedCall () {
    const { dapp, wallet } = await pair(bridge)
    answerCalls(wallet, () => new Error('rejected by the user'))
    return dapp.signMessage([ACCOUNT, '0x00']).then(() => 'signed', error => error.message)
  },

  async pendingCalls () {
    const { dapp, wallet } = await pair(bridge)
    const requests = []
    const all = new Promise(resolve => answerCalls(wallet, request => {
      requests.push(request)
      if (requests.length === 20) resolve()
    }))
    const answers = await signAll(dapp, Array.from({ length: 20 }, (_, number) => `0x${number}`))
    await within(all, 'twenty calls')
    for (const { id, params } of [...requests].reverse()) wallet.approveRequest({ id, result: params[1] })
    return { asked: requests.map(request => request.params[1]), answered: await Promise.all(answers) }
  },

  async update () {
    const { dapp, wallet } = await pair(bridge)
    const updated = once(dapp, 'session_update')
    wallet.updateSession({ chainId: 100, accounts: [ACCOUNT] })
    return { updated: await updated, chain: dapp.chainId }
  },

  async killedByWallet () {
    const { dapp, wallet } = await pair(bridge)
    const disconnected = once(dapp, 'disconnect')
    await wallet.killSession()
    await disconnected
    return [dapp.connected, wallet.connected]
  },

  async killedByDapp () {
    const { dapp, wallet } = await pair(bridge)
    const disconnected = once(wallet, 'disconnect')
    await dapp.killSession()
    await disconnected
    return [dapp.connected, wallet.connected]
  },

  async walletOffline () {
    const { dapp, wallet } = await pair(bridge)
    const session = wallet.session
    await leave(wallet)
    const answers = await signAll(dapp, ['0x01', '0x02', '0x03'])
    const order = []
    answerCalls(new Connector({ session }), request => {
      order.push(request.params[1])
      return request.params[1]
    })
    return { order, answered: await Promise.all(answers) }
  },

  async twoOfEach () {
    const accounts = ['0x' + '1'.repeat(40), '0x' + '2'.repeat(40)]
    const pairs = await Promise.all(accounts.map(account => pair(bridge, account)))
    pairs.forEach(({ wallet }, number) => answerCalls(wallet, request => `${number} ${request.params[1]}`))
    const ask = async ({ dapp }) => Promise.all(await signAll(dapp, ['0x1', '0x2', '0x3']))
    return { accounts: pairs.map(({ dapp }) => dapp.accounts[0]), answered: await Promise.all(pairs.map(ask)) }
  }
})
