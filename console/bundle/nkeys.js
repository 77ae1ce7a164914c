// In the place of @nats-io/nkeys: nobody signs with the seed of a key in the console.
module.exports = {};
