export { Bridge, connectBridge, startBridge } from './bridge.js'
export { findServer } from './find.js'
export { RefusedError } from './requests.js'
export { Call, Session, Wallet, startWallet } from './wallet.js'
