/** Seconds, or a sum of spans. */
export type Duration =
  | number
  | {
      milliseconds?: number
      seconds?: number
      minutes?: number
      hours?: number
      days?: number
      weeks?: number
    }

/** A value of a setting of the server. */
export type Setting = string | number | boolean | bigint | ReadonlyArray<string | number | boolean>

export interface BridgeOptions {
  /** Settings of the server by name, such as `{ session_ttl: 60 }`. */
  settings?: Record<string, Setting | undefined>
  /** Gives the wallet at `/rpc` the published development accounts. */
  devAccounts?: boolean
}

export interface ClockState {
  now: string
  frozen: boolean
  /** Rows that had expired and were deleted. */
  swept: number
  /** Messages of the outbox that became due and were tried. */
  delivered: number
}

export interface Clock {
  advance(duration: Duration): Promise<ClockState>
  set(time: Date | string, options?: { frozen?: boolean }): Promise<ClockState>
  now(): Promise<Date>
}

export interface Fault {
  where: 'request' | 'webhook' | 'fcm' | 'apns' | 'webpush' | 'node' | 'disk'
  /** A route's name, for `request`. */
  route?: string
  status?: number
  /** Seconds. */
  retry_after?: number
  delay_ms?: number
  /** The connection is closed without an answer. */
  drop?: boolean
  /** In the provider's own words, such as `UNREGISTERED`; for `disk`, `full` or `locked`. */
  answer?: string
  /** So many are let through first. */
  after?: number
  /** So many are hit; all when left out. */
  times?: number
}

export interface Faults {
  set(rules: Fault[]): Promise<Array<Fault & { hits: number }>>
  list(): Promise<Array<Fault & { hits: number }>>
  clear(): Promise<void>
}

export interface Sent {
  id: string
  channel: string
  at: string
  outcome: string
  topic?: string
  account?: string
  url?: string
  token?: string
  title?: string
  body?: string
  headers?: Record<string, string>
  payload: unknown
}

export interface TrafficLine {
  number: number
  at: string
  who: string
  method: string
  path: string
  route: string
  status: number
  milliseconds: number
  waited: number
  summary: string
}

export class Bridge implements AsyncDisposable {
  readonly url: string
  readonly v07Url: string
  readonly rpcUrl: string
  readonly socketUrl: string
  readonly testToken: string
  readonly accounts: string[]
  readonly log: string
  readonly clock: Clock
  readonly faults: Faults
  reset(): Promise<void>
  sent(which?: { channel?: string; topic?: string; account?: string; wait?: number }): Promise<Sent[]>
  forgetSent(): Promise<void>
  traffic(which?: { after?: number; wait?: number }): Promise<TrafficLine[]>
  wallet(options?: WalletOptions): Promise<Wallet>
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export function startBridge(options?: BridgeOptions): Promise<Bridge>
export function connectBridge(where?: { url?: string; testToken?: string }): Promise<Bridge>
export function findServer(environment?: Record<string, string | undefined>): string

export class RefusedError extends Error {
  readonly status: number
  readonly problem: Record<string, unknown>
}

/** Texts such as `eth_sendTransaction=reject`, or the actions of each method, first to last. */
export type Rules = string[] | Record<string, string | string[]>

export type Policy = 'approve' | 'reject' | 'ask' | 'hang'

export interface WalletOptions {
  on?: Rules
  session?: Policy
  policy?: Policy
  /** Indexes of development accounts. */
  accounts?: number | number[]
  chainId?: number
  rpc?: string
  rpcTokenFile?: string
  nodeUrl?: string
  mnemonicFile?: string
  privateKeyFile?: string
}

/** The part of a page of Playwright that the wallet uses. */
export interface PageLike {
  screenshot(options: { type: 'png' }): Promise<Uint8Array>
  exposeBinding(name: string, callback: (source: any, argument: any) => unknown): Promise<unknown>
  addInitScript(script: any, argument?: any): Promise<unknown>
  frames(): any[]
  isClosed(): boolean
}

export class Wallet implements AsyncDisposable {
  readonly url: string
  readonly accounts: string[]
  readonly log: string
  pair(uri: string): Promise<Session>
  pairByPicture(png: Uint8Array): Promise<Session>
  scan(page: Pick<PageLike, 'screenshot'>): Promise<Session>
  install(page: PageLike, options?: { name?: string }): Promise<void>
  request(call: {
    method: string
    params?: unknown
    origin?: string
    name?: string
  }): Promise<
    { result: unknown; error?: undefined } | { error: { code: number; message: string; data?: unknown } }
  >
  setRules(on: Rules): Promise<string[]>
  sessions(): Promise<Session[]>
  calls(which?: { state?: string; method?: string; wait?: number }): Promise<Call[]>
  nextCall(method?: string, options?: { timeout?: number }): Promise<Call>
  events(): AsyncGenerator<{ event: string; [member: string]: unknown }>
  reset(): Promise<void>
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export function startWallet(options?: WalletOptions): Promise<Wallet>

export class Session {
  readonly id: string
  readonly generation: string
  readonly state: string
  readonly dapp: { name: string; url: string }
  readonly accounts: string[]
  readonly chain_id: number
  switchAccount(...accounts: Array<number | string>): Promise<void>
  switchChain(chainId: number): Promise<void>
  disconnect(): Promise<void>
}

export class Call {
  readonly id: string
  readonly session: string
  readonly origin: string
  readonly method: string
  readonly params: unknown
  /** What is signed, in words. */
  readonly text: string
  readonly state: string
  readonly result?: unknown
  readonly error?: { code: number; message: string; data?: unknown }
  approve(): Promise<void>
  reject(reason?: { code?: number; message?: string }): Promise<void>
  answer(result: unknown): Promise<void>
}
