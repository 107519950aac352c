// A session from its proposal to its end, with the published clients of generation 2.x: node v2_pairing.js RELAY_URL

const { ACCOUNT, CHAIN, namespaces, once, pair, play, sign } = require('./v2_parties')

async function session (relay) {
  const paired = await pair(relay)
  const { dapp, wallet, topic, session } = paired
  const signed = await sign(paired, '0x68656c6c6f')
  const happened = once(dapp, 'session_event')
  await wallet.emit({ topic, event: { name: 'chainChanged', data: 1 }, chainId: CHAIN })
  const { params: { event } } = await happened
  const updated = once(dapp, 'session_update')
  await wallet.update({ topic, namespaces: namespaces([CHAIN, 'eip155:5']) }).then(({ acknowledged }) => acknowledged())
  await updated
  await dapp.ping({ topic })
  await wallet.ping({ topic })
  const accounts = dapp.session.get(topic).namespaces.eip155.accounts
  const ended = once(wallet, 'session_delete')
  await dapp.disconnect({ topic, reason: { code: 6000, message: 'done' } })
  return {
    peer: session.peer.metadata.name,
    account: session.namespaces.eip155.accounts[0] === `${CHAIN}:${ACCOUNT}`,
    signed, event, accounts: accounts.length, ended: (await ended).topic === topic, left: dapp.session.getAll().length
  }
}

module.exports = { session }

if (require.main === module) play({ session: () => session(process.argv[2]) })
