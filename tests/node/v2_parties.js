// Dapps and wallets as applications make them with the published clients of generation 2.x. Nothing outside this
// machine is reached: no telemetry, and IS_VITEST keeps wallets from asking the Verify service about dapps.

process.env.IS_VITEST = 'true'

const { SignClient } = require('@walletconnect/sign-client')
const { EthereumProvider } = require('@walletconnect/ethereum-provider')
const { WalletKit } = require('@reown/walletkit')
const { Core } = require('@walletconnect/core-v2')
