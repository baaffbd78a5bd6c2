"""KIP-848: members tell what they want in heartbeats, the coordinator assigns."""
