// The custom element: sign-in, and the inbox of the account that is signed in.

import { developmentWallet } from './development.js'
import { element } from './elements.js'
import { Inbox, MOST_UNREAD } from './inbox.js'
import { ListView } from './list_view.js'
import { AnswerError, Server, Session } from './server.js'
import { SignInView } from './sign_in_view.js'
import { styles } from './styles.js'
import { SubscriptionsView } from './subscriptions_view.js'
import { filled, TEXTS } from './texts.js'
import { NoAccountError, REQUEST_PENDING, signIn, USER_REJECTED, Wallets } from './wallets.js'

const AGE_MILLISECONDS = 30_000

class BridgeInbox extends HTMLElement {
  static observedAttributes = ['development', 'lang', 'project', 'server']

  #texts = TEXTS
  #wallets = new Wallets(() => this.#walletsChanged())
  #development = []
  #session = null
  #server = null
  #inbox = null
  #attempt = null
  #watched = null
  #view = null
  #unread = 0
  #ageing = 0

  /** The texts that are shown, in English; an app replaces any of them, by name. */
  get texts() {
    return this.#texts
  }

  set texts(texts) {
    this.#texts = { ...TEXTS, ...texts }
    if (this.#view) this.#restart()
  }

  /** The number of unread notifications, at most 1000; it is an attribute, too, and `bridge-inbox-unread` tells changes. */
  get unread() {
    return this.#unread
  }

  /** The account that is signed in, such as `eip155:1:0xab16…`; null if none is. */
  get account() {
    return this.#session?.current?.account ?? null
  }

  connectedCallback() {
    if (Object.hasOwn(this, 'texts')) this.#takeEarlyTexts()
    this.#restart()
    this.#wallets.listen()
    document.addEventListener('visibilitychange', this.#visibilityChanged)
    this.#ageing = setInterval(() => this.#view.list.age(), AGE_MILLISECONDS)
  }

  disconnectedCallback() {
    clearInterval(this.#ageing)
    document.removeEventListener('visibilitychange', this.#visibilityChanged)
    this.#wallets.stop()
    this.#attempt = null
    this.#inbox?.pause()
    this.#unwatch()
  }

  attributeChangedCallback(_, before, after) {
    if (this.isConnected && this.#view && before !== after) this.#restart()
  }

  /** Ends the sign-in, here and on the server. */
  async signOut(message = this.#texts.signedOut) {
    const token = this.#session?.current?.token
    if (!token) return
    this.#end(message)
    await this.#server.request('POST', 'logout', { headers: { Authorization: `Bearer ${token}` } }).catch(() => undefined)
  }

  /** A page may set `texts` before this script has run. */
  #takeEarlyTexts() {
    const { texts } = this
    delete this.texts
    this.texts = texts
  }

  /** A hidden page would hold one of the few connections that a browser opens to a server. */
  #visibilityChanged = () => (document.visibilityState === 'hidden' ? this.#inbox?.pause() : this.#inbox?.resume())

  #restart() {
    const server = this.getAttribute('server')
    const base = server ? `${server.replace(/\/+$/, '')}/inbox/` : new URL('.', import.meta.url).href
    this.#inbox?.pause()
    this.#unwatch()
    this.#attempt = null
    this.#session = new Session(base)
    this.#server = new Server(base, this.#session)
    this.#development = this.hasAttribute('development') ? [developmentWallet(base)] : []
    this.#build()
    this.#begin()
  }

  /** Shows the inbox of the account, or the choice of a wallet. */
  #begin() {
    this.#inbox = this.account ? new Inbox(this.#server, this.getAttribute('project') || null, this.#listener()) : null
    this.#show()
    this.#walletsChanged()
    if (document.visibilityState !== 'hidden') this.#inbox?.resume()
  }

  #listener() {
    const isCurrent = this.#session.current
    const during = (work) => (value) => isCurrent === this.#session.current && work(value)
    return {
      changed: during(() => this.#show()),
      arrived: during((notification) => this.#say(filled(this.#texts.arrived, notification))),
      interrupted: during(() => this.#say(this.#texts.interrupted)),
      connected: during(() => this.#view.status.textContent === this.#texts.interrupted && this.#say('')),
      refused: during(() => this.#end(this.#texts.ended)),
    }
  }

  // -- Signing in and out

  async #signIn(wallet) {
    const attempt = (this.#attempt = {})
    this.#showError('')
    this.#say(filled(this.#texts.confirm, { wallet: wallet.name }))
    this.#walletsChanged()
    try {
      const nonce = async () => (await this.#server.json('POST', 'nonce')).nonce
      const body = await signIn(wallet, { nonce, statement: this.#texts.statement })
      if (this.#attempt !== attempt) return
      const signedIn = await this.#server.json('POST', 'login', { body })
      if (this.#attempt !== attempt) return
      this.#attempt = null
      this.#say('')
      this.#session.keep({ ...signedIn, rdns: wallet.rdns })
      this.#watch(wallet.provider)
      this.#begin()
      this.#view.heading.focus()
    } catch (error) {
      if (this.#attempt === attempt) this.#cancel(this.#reasonOf(error))
    }
  }

  #cancel(reason = '') {
    this.#attempt = null
    this.#say('')
    this.#showError(reason)
    this.#walletsChanged()
  }

  #reasonOf(error) {
    const texts = this.#texts
    if (error instanceof NoAccountError) return texts.noAccount
    if (error instanceof AnswerError) {
      return error.message || (error.status ? filled(texts.failed, error) : texts.unreachable)
    }
    if (error?.code === USER_REJECTED) return texts.rejected
    if (error?.code === REQUEST_PENDING) return texts.pendingInWallet
    return filled(texts.walletFailed, { reason: String(error?.message ?? error) })
  }

  #end(message) {
    const hadFocus = this.shadowRoot.activeElement
    this.#inbox?.pause()
    this.#unwatch()
    this.#session.keep(null)
    this.#begin()
    this.#showError('')
    this.#say(message)
    if (hadFocus) this.#view.heading.focus()
  }

  // -- Wallets

  get #offered() {
    return [...this.#wallets.all, ...this.#development]
  }

  #walletsChanged() {
    if (!this.#view) return
    if (this.account) void this.#findWallet()
    else this.#view.signIn.show(this.#offered, Boolean(this.#attempt))
  }

  /** After a reload: finds the wallet that has signed in, and learns its account without asking the person. */
  async #findWallet() {
    const { rdns } = this.#session.current
    const wallet = !this.#watched && rdns && this.#offered.find((each) => each.rdns === rdns)
    if (!wallet) return
    this.#watch(wallet.provider)
    const accounts = await wallet.provider.request({ method: 'eth_accounts' }).catch(() => [])
    if (accounts?.length) this.#accountsChanged(accounts)
  }

  #watch(provider) {
    this.#unwatch()
    const changed = (accounts) => this.#accountsChanged(accounts ?? [])
    provider.on?.('accountsChanged', changed)
    this.#watched = { provider, changed }
  }

  #unwatch() {
    this.#watched?.provider.removeListener?.('accountsChanged', this.#watched.changed)
    this.#watched = null
  }

  /** Another account must not see the notifications of this one. On another chain the account is no other. */
  #accountsChanged([account]) {
    const address = this.account?.split(':')[2]
    if (address && account?.toLowerCase() !== address.toLowerCase()) void this.signOut(this.#texts.accountChanged)
  }

  // -- Showing

  #build() {
    const texts = this.#texts
    const shadow = this.shadowRoot ?? this.attachShadow({ mode: 'open' })
    shadow.adoptedStyleSheets = [styles]
    const button = (label, click) => element('button', { type: 'button', part: 'button', on: { click } }, label)
    const badge = element('span', { className: 'badge', part: 'badge' })
    const view = (this.#view = {
      badge,
      heading: element('h2', { part: 'heading', tabIndex: -1 }, texts.heading, badge),
      markAll: button(texts.markAll, ({ currentTarget }) => this.#markAllRead(currentTarget)),
      signOut: button(texts.signOut, () => this.signOut()),
      account: element('p', { className: 'message', part: 'account' }),
      error: element('p', { className: 'message error', part: 'error', role: 'alert' }),
      status: element('p', { className: 'message', part: 'status', role: 'status' }),
      signIn: new SignInView(texts, { signIn: (wallet) => this.#signIn(wallet), cancel: () => this.#cancel() }),
      subscriptions: new SubscriptionsView(texts, this.#subscribing()),
      list: new ListView(texts, this.closest('[lang]')?.lang || undefined, this.#reading()),
    })
    const { heading, markAll, signOut, account, error, status, signIn: choice, subscriptions, list } = view
    const actions = element('div', { className: 'actions', id: 'actions' }, markAll, subscriptions.button, signOut)
    const menu = button(texts.menu, () => this.#toggleMenu())
    menu.className = 'menu'
    menu.setAttribute('aria-controls', 'actions')
    menu.ariaExpanded = 'false'
    Object.assign(view, { menu, actions })
    const header = element('div', { className: 'header', part: 'header' }, heading, menu, actions)
    const { offer, node: settings } = subscriptions
    shadow.replaceChildren(header, account, error, status, choice.node, offer, settings, ...list.nodes)
  }

  #show() {
    const view = this.#view
    const inbox = this.#inbox
    const unread = inbox?.notifications.isLoaded ? inbox.notifications.unread.length : 0
    view.signIn.node.hidden = Boolean(inbox)
    for (const node of [view.markAll, view.signOut, view.menu, view.account]) node.hidden = !inbox
    view.account.textContent = inbox ? filled(this.#texts.signedIn, { account: shortened(this.account) }) : ''
    view.markAll.disabled = !unread
    view.subscriptions.show(inbox)
    view.list.show(inbox)
    this.#count(Math.min(unread, MOST_UNREAD))
  }

  /** On a narrow page the actions stand behind a button. */
  #toggleMenu() {
    const { menu, actions } = this.#view
    menu.ariaExpanded = String(actions.classList.toggle('open'))
  }

  #count(unread) {
    const count = unread < MOST_UNREAD ? String(unread) : `${MOST_UNREAD}+`
    this.#view.badge.hidden = !unread
    this.#view.badge.replaceChildren(
      element('span', { 'aria-hidden': 'true' }, count),
      element('span', { className: 'unseen' }, filled(this.#texts.unreadCount, { count }))
    )
    this.toggleAttribute('unread', Boolean(this.#inbox))
    if (this.#inbox) this.setAttribute('unread', unread)
    if (unread === this.#unread) return
    this.#unread = unread
    this.dispatchEvent(new CustomEvent('bridge-inbox-unread', { detail: { unread }, bubbles: true, composed: true }))
  }

  #say(text) {
    this.#view.status.textContent = text
  }

  #showError(text) {
    this.#view.error.textContent = text
  }

  // -- What a person does

  #reading() {
    return {
      markRead: (notification) => this.#attend(null, () => this.#inbox.markRead(notification)),
      loadOlder: (control) => this.#attend(control, () => this.#inbox.loadOlder()),
    }
  }

  #markAllRead(control) {
    return this.#attend(control, async () => {
      await this.#inbox.markAllRead()
      this.#say(this.#texts.allMarked)
    })
  }

  #subscribing() {
    const texts = this.#texts
    const say = (text, { project_id, project_name }) =>
      this.#say(filled(text, { project: this.#inbox.subscriptionTo(project_id)?.project_name ?? project_name }))
    const changing = (work, text) => (project, control) =>
      this.#attend(control, async () => {
        await work(project)
        say(text, project)
      })
    return {
      subscribe: changing(({ project_id }) => this.#inbox.subscribe(project_id, null), texts.subscribed),
      unsubscribe: changing((subscription) => this.#inbox.unsubscribe(subscription), texts.unsubscribed),
      choose: (subscription, types) =>
        changing(({ project_id }) => this.#inbox.subscribe(project_id, types), texts.saved)(subscription, null),
    }
  }

  /** Does what was asked for. The control rests meanwhile; a failure is shown, with the state as the server has it. */
  async #attend(control, work) {
    const before = this.#session.current
    if (control?.ariaDisabled === 'true') return
    if (control) control.ariaDisabled = 'true'
    this.#showError('')
    try {
      await work()
    } catch (error) {
      if (before !== this.#session.current) return
      if (error.status === 401) return this.#end(this.#texts.ended)
      this.#showError(this.#reasonOf(error))
      this.#show()
    } finally {
      if (control) control.ariaDisabled = null
    }
  }
}

function shortened(account) {
  const address = account.split(':')[2]
  return `${address.slice(0, 6)}…${address.slice(-4)}`
}

if (!customElements.get('bridge-inbox')) customElements.define('bridge-inbox', BridgeInbox)
