// Subscriptions and their types.

import { element } from './elements.js'
import { filled } from './texts.js'

const OPPOSITES = { subscribe: 'unsubscribe', unsubscribe: 'subscribe' }

export class SubscriptionsView {
  node = element('div', { className: 'settings', part: 'settings', hidden: true })
  /** The offer to subscribe to the one project that is shown. */
  offer = element('div', { className: 'bar', part: 'offer', hidden: true })
  #texts
  #actions
  #inbox = null
  #isOpen = false

  /** Actions: `subscribe(project, control)`, `unsubscribe(subscription, control)`, `choose(subscription, types)`. */
  constructor(texts, actions) {
    this.#texts = texts
    this.#actions = actions
    this.button = element('button', { type: 'button', part: 'button', on: { click: () => this.#toggle() } }, texts.settings)
  }

  /** Shows the subscriptions of an inbox; null hides them. */
  show(inbox) {
    if (!inbox) this.#isOpen = false
    this.#inbox = inbox
    const isLoaded = Boolean(inbox?.notifications.isLoaded)
    this.button.hidden = !inbox
    this.button.ariaExpanded = String(this.#isOpen)
    this.node.hidden = !isLoaded || !this.#isOpen
    this.offer.hidden = !isLoaded || !inbox.projectId || Boolean(inbox.subscriptionTo(inbox.projectId))
    if (isLoaded) this.#showLoaded(inbox)
  }

  #toggle() {
    this.#isOpen = !this.#isOpen
    this.show(this.#inbox)
  }

  #showLoaded({ projectId, subscriptions, ended }) {
    const focused = this.node.getRootNode().activeElement?.dataset.control
    const shown = subscriptions.filter(({ project_id }) => !projectId || project_id === projectId)
    const left = projectId ? [] : [...ended.values()]
    const name = ended.get(projectId)?.project_name ?? projectId
    this.offer.replaceChildren(...this.#offer({ project_id: projectId, project_name: name }))
    const nodes = [
      ...shown.map((subscription) => this.#subscription(subscription)),
      ...left.map((project) => element('div', { part: 'subscription' }, ...this.#offer(project))),
    ]
    this.node.replaceChildren(...(nodes.length ? nodes : [this.#texts.noSubscriptions]))
    if (focused) this.#focus(focused)
  }

  #offer(project) {
    return [
      element('p', {}, filled(this.#texts.unsubscribed, { project: project.project_name })),
      this.#button('subscribe', project),
    ]
  }

  #subscription(subscription) {
    const { project_name: name, project_id: projectId, notification_types: types } = subscription
    const boxes = subscription.available_types.map(({ id }) =>
      element('input', {
        type: 'checkbox',
        value: id,
        checked: types.includes(id),
        'data-control': `${id} ${projectId}`,
        on: { change: () => this.#choose(subscription, boxes) },
      })
    )
    const labels = subscription.available_types.map((type, at) => element('label', {}, boxes[at], element('bdi', {}, type.name)))
    const legend = element('legend', {}, filled(this.#texts.types, { project: name }))
    return element('fieldset', { part: 'subscription' }, legend, ...labels, this.#button('unsubscribe', subscription))
  }

  /** A choice of all types is a subscription to later ones as well. */
  #choose(subscription, boxes) {
    const chosen = boxes.filter(({ checked }) => checked).map(({ value }) => value)
    this.#actions.choose(subscription, chosen.length === boxes.length ? null : chosen)
  }

  #button(kind, project) {
    const click = ({ currentTarget }) => this.#actions[kind](project, currentTarget)
    const control = `${kind} ${project.project_id}`
    return element('button', { type: 'button', part: 'button', 'data-control': control, on: { click } }, this.#texts[kind])
  }

  /** Focuses the control that took the place of one that had the focus. */
  #focus(control) {
    const [kind, projectId] = control.split(' ')
    const root = this.node.getRootNode()
    const found = [control, `${OPPOSITES[kind]} ${projectId}`].map((name) => root.querySelector(`[data-control="${name}"]`))
    const target = found.find((each) => each?.checkVisibility()) ?? this.button
    target.focus()
  }
}
