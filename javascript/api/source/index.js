export { BridgeUnreachableError, RequestRefusedError } from './errors.js'
export { Notifier } from './notifier.js'
