// A wallet that wants to join a topic that has as many clients as it may: node v2_full_topic.js RELAY_URL

const { namespaces, newDapp, newWallet, once, pair, play, propose, within } = require('./v2_parties')

const relay = process.argv[2]
const PATIENCE_MS = 3_000

play({
  async aThirdClientIsRefusedAndGoesOn () {
    const [wallet, late] = await Promise.all([newWallet(relay), newWallet(relay)])
    const { uri, approval } = await propose(await newDapp(relay))
    const proposed = once(wallet, 'session_proposal')
    await wallet.pair({ uri })
    const { id } = await proposed
    let seen = 0
    const count = () => seen++
    late.on('session_proposal', count)
    const joined = late.pair({ uri }).then(() => true, () => false)
    const patience = new Promise(resolve => setTimeout(resolve, PATIENCE_MS, false).unref())
    const hasJoined = await Promise.race([joined, patience])
    await wallet.approve({ id, namespaces: namespaces() })
    const session = await within(approval(), 'approval')
    late.off('session_proposal', count)
    const next = await pair(relay, undefined, late)
    return { hasJoined, seen, peer: session.peer.metadata.name, next: next.session.peer.metadata.name }
  }
})
