// What dapps and wallets of generation 2.x do with each other: node v2_scenes.js RELAY_URL

const {
  ACCOUNT, CHAIN, comeBack, leave, namespaces, newDapp, newProvider, newWallet, newWalletKit, once, pair, play, propose,
  sign, within
} = require('./v2_parties')
const { session } = require('./v2_pairing')

const relay = process.argv[2]

play({
  session: () => session(relay),

  async rejection () {
    const dapp = await newDapp(relay)
    const wallet = await newWallet(relay)
    const { uri, approval } = await propose(dapp)
    const refused = approval().then(() => 'approved', error => error.message)
    const proposed = once(wallet, 'session_proposal')
    await wallet.pair({ uri })
    await wallet.reject({ id: (await proposed).id, reason: { code: 5000, message: 'User rejected.' } })
    return within(refused, 'the rejection')
  },

  async severalAtOnce () {
    const paired = await pair(relay)
    const messages = ['0x01', '0x02', '0x03', `0x${'5a'.repeat(50 * 1024)}`]
    const answers = await Promise.all(messages.map(message => sign(paired, message)))
    return answers.map((answer, number) => answer === messages[number])
  },

  async refusedCall () {
    const wallet = await newWallet(relay, () => ({ error: { code: 5000, message: 'User rejected.' } }))
    const paired = await pair(relay, undefined, wallet)
    return sign(paired, '0x00').then(() => 'signed', error => error.message)
  },

  async walletAway () {
    const paired = await pair(relay)
    await leave(paired.wallet)
    const answers = Promise.all(['0x01', '0x02', '0x03'].map(message => sign(paired, message)))
    await new Promise(resolve => setTimeout(resolve, 300))
    await comeBack(paired.wallet)
    return answers
  },

  async extension () {
    const { dapp, wallet, topic } = await pair(relay)
    const before = dapp.session.get(topic).expiry
    await new Promise(resolve => setTimeout(resolve, 1100)) // an expiry is in whole seconds
    const extended = once(dapp, 'session_extend')
    await wallet.extend({ topic }).then(({ acknowledged }) => acknowledged())
    await extended
    return dapp.session.get(topic).expiry > before
  },

  async disconnectionByWallet () {
    const { dapp, wallet, topic } = await pair(relay)
    const ended = once(dapp, 'session_delete')
    await wallet.disconnect({ topic, reason: { code: 6000, message: 'done' } })
    return (await ended).topic === topic
  },

  async providerAndWalletKit () {
    const provider = await newProvider(relay)
    const kit = await newWalletKit(relay)
    const shown = once(provider, 'display_uri')
    const enabled = provider.enable()
    const proposed = once(kit, 'session_proposal')
    await kit.pair({ uri: await shown })
    const { id } = await proposed
    const session = await kit.approveSession({ id, namespaces: namespaces([CHAIN, 'eip155:5']) })
    const accounts = await within(enabled, 'enable')
    const signed = await provider.request({ method: 'personal_sign', params: ['0x68656c6c6f', ACCOUNT] })
    const changed = once(provider, 'chainChanged')
    await kit.emitSessionEvent({ topic: session.topic, event: { name: 'chainChanged', data: 5 }, chainId: 'eip155:5' })
    const chain = await changed
    const ended = once(provider, 'disconnect')
    await kit.disconnectSession({ topic: session.topic, reason: { code: 6000, message: 'done' } })
    await ended
    return { accounts, signed, chain, connected: provider.connected }
  },

  async kitRejects () {
    const provider = await newProvider(relay)
    const kit = await newWalletKit(relay)
    const shown = once(provider, 'display_uri')
    const refused = provider.enable().then(() => 'enabled', error => error.message)
    const proposed = once(kit, 'session_proposal')
    await kit.pair({ uri: await shown })
    await kit.rejectSession({ id: (await proposed).id, reason: { code: 5000, message: 'User rejected.' } })
    return within(refused, 'the rejection')
  },

  async twelvePairs () {
    const numbers = Array.from({ length: 12 }, (_, number) => number)
    const pairs = await Promise.all(numbers.map(() => pair(relay)))
    return Promise.all(pairs.map((paired, number) => sign(paired, `0x${number}`)))
  }
})
