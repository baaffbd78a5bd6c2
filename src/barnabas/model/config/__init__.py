"""The settings of brokers and topics: which there are, how they are read, shown and changed."""
