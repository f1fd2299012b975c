"""The bus under the RPC layer: late acknowledgement, batches and pipelined confirms on RabbitMQ."""
