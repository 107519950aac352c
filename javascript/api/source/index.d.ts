/** The outcome for an account that did not get the notification. */
export interface FailedAccount {
  account: string
  reason: 'rate_limited' | 'type_not_subscribed'
  /** Seconds after which a rate-limited account can get it. */
  retryAfter?: number
}

/** The outcome of one call: each account, as it was spelled, is in one of the three. */
export interface NotifyResult {
  /** Has also the accounts that an earlier call with this notification id has reached. */
  sent: string[]
  failed: FailedAccount[]
  /** Not subscribed to the project. */
  notFound: string[]
}

export interface Content {
  /** The id of a notification type of the project. */
  type: string
  /** 1 to 64 characters. */
  title: string
  /** 1 to 255 characters. */
  body: string
  /** What the user can open. */
  url?: string
  /** The notification id, an idempotency key: repeated with it, a call sends to nobody twice. */
  id?: string
  /** Answers what sending would do now, and changes nothing. */
  dryRun?: boolean
}

export interface Progress {
  /** The notification id, by which an interrupted walk is taken up again. */
  id: string | undefined
  /** The last account that was asked for, in the order of account ids. */
  after: string
  /** Accounts in all. Of all subscribers the first answer has it; undefined in a walk that begins behind `after`. */
  total: number | undefined
  /** Accounts that are done. */
  accounts: number
  sent: number
  rateLimited: number
  typeNotSubscribed: number
  notFound: number
  /** Above 0 while the walk waits so many seconds. */
  waits: number
  because: string
  /** The outcome of the call that was made just now. */
  result: NotifyResult | undefined
}

export interface SubscribedAccount {
  account: string
  notificationTypes: string[]
}

export interface NotifierOptions {
  fetch?: typeof fetch
  /** The time limit of one attempt; 10. */
  attemptSeconds?: number
  /** The time limit of all retries of `notify` and `lookup`; 30. */
  patienceSeconds?: number
  /** How long `notifyAll` and `subscribers` go on without any answer but 5xx; 300. A 429 does not end them. */
  walkPatienceSeconds?: number
}

/** Sends notifications of a project. For the app's backend: its secret must not be in a web page. */
export class Notifier {
  constructor(url: string | URL, project: string, secret: string, options?: NotifierOptions)
  /** Sends to at most 500 accounts (CAIP-10 ids). Without `id` a call that may have been processed is not retried. */
  notify(notification: Content & { to: Iterable<string> }): Promise<NotifyResult>
  /** Sends to all subscribers, or to any number of accounts; yields the progress, at first with the `id`. */
  notifyAll(
    notification: Content & { to?: Iterable<string>; after?: string },
  ): AsyncGenerator<Progress, void, undefined>
  /** Yields the account ids of all subscribers in order, or of those that follow `after`, as they arrive. */
  subscribers(options?: { after?: string }): AsyncGenerator<string, void, undefined>
  /** The subscribers among the accounts, any number, by account id. */
  lookup(accounts: Iterable<string>): Promise<Map<string, SubscribedAccount>>
}

/** The document of a refusal (RFC 9457). */
export interface Problem {
  type?: string
  title?: string
  status?: number
  detail?: string
  instance?: string
  errors?: { pointer: string; detail: string }[]
}

/** The server refused the request: 401 for a wrong secret, 400 with what is wrong, 429 with `retryAfter` seconds. */
export class RequestRefusedError extends Error {
  readonly status: number
  readonly problem: Problem
  readonly retryAfter: number | undefined
}

/** No answer, or only 429 and 5xx until the time was over. */
export class BridgeUnreachableError extends Error {
  /** Whether the server may have processed the request. */
  readonly mayHaveSent: boolean
}
