// A line with a button that copies its address.
class CopyLine extends HTMLElement {
  connectedCallback() {
    if (!navigator.clipboard || this.querySelector('button')) return
    const address = this.querySelector('span').textContent
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = 'Copy'
    button.setAttribute('aria-label', `Copy ${address}`)
    const said = document.createElement('small')
    said.setAttribute('role', 'status')
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(address)
      said.textContent = 'Copied'
    })
    this.append(button, said)
  }
}
customElements.define('copy-line', CopyLine)
