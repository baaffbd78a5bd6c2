-- Computed anew when orders have come.
CREATE MATERIALIZED VIEW totals AS
SELECT customer, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY customer;
