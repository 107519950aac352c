// The choice of a wallet.

import { element } from './elements.js'
import { filled } from './texts.js'

export class SignInView {
  node = element('div', { className: 'sign-in', part: 'sign-in' })
  #texts
  #actions

  /** Actions: `signIn(wallet)` and `cancel()`. */
  constructor(texts, actions) {
    this.#texts = texts
    this.#actions = actions
  }

  /** Shows a button for each wallet, or for cancelling while one of them is asked. */
  show(wallets, isAsking) {
    const texts = this.#texts
    const focused = this.node.getRootNode().activeElement
    const hadFocus = this.node.contains(focused)
    const buttons = isAsking
      ? [this.#button(texts.cancel, '', () => this.#actions.cancel())]
      : wallets.map((wallet) => this.#signIn(wallet, wallets))
    this.node.replaceChildren(
      element('p', {}, wallets.length ? texts.explanation : texts.noWallet),
      element('div', { className: 'wallets' }, ...buttons)
    )
    if (!hadFocus) return
    const again = buttons.find(({ textContent }) => textContent === focused.textContent) ?? buttons[0]
    again?.focus()
  }

  #signIn(wallet, wallets) {
    const isNamesake = wallets.some((other) => other !== wallet && other.name === wallet.name)
    const name = isNamesake ? `${wallet.name} (${wallet.rdns})` : wallet.name
    const text = wallet.isAccount ? this.#texts.signInAs : this.#texts.signIn
    return this.#button(filled(text, { wallet: name }), 'main', () => this.#actions.signIn(wallet))
  }

  #button(label, className, click) {
    return element('button', { type: 'button', part: 'button', className, on: { click } }, label)
  }
}
