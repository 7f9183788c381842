// RUN: vk-opt '--apply-plan{tiles="i=6","j=32" chunks="k=4" packs="a","b" lanes=j order=j,i units="vnni"}' --verify-mapped %s | filecheck %s
// Both operands are packed as words of four positions along k. The unit reads %b as unsigned, so 128 is added to its
// elements; 128 times the sums of %a's rows are found while it is packed, and subtracted first.

vk.kernel @matmul(%a: !vk.tensor<[M, K], i8>, %b: !vk.tensor<[K, N], i8>, %out: !vk.tensor<[M, N], i32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.tile j < %N
  %K = vk.size K
  vk.whole k < %K
  %x = vk.load %a[i, k] : !vk.tensor<[M, K], i8> -> tensor<?x?xi8, #vk.axes<i, k>>
  %y = vk.load %b[k, j] : !vk.tensor<[K, N], i8> -> tensor<?x?xi8, #vk.axes<k, j>>
  %xf = arith.extsi %x : tensor<?x?xi8, #vk.axes<i, k>> to tensor<?x?xi32, #vk.axes<i, k>>
  %yf = arith.extsi %y : tensor<?x?xi8, #vk.axes<k, j>> to tensor<?x?xi32, #vk.axes<k, j>>
  %zero = arith.constant 0 : i32
  %init = vk.broadcast %zero : i32 -> tensor<?x?xi32, #vk.axes<i, j>>
  %p = vk.dot %xf, %yf, %init along k precision ieee : tensor<?x?xi32, #vk.axes<i, k>>, tensor<?x?xi32, #vk.axes<k, j>>, tensor<?x?xi32, #vk.axes<i, j>>
  vk.store %p in %out[i, j] : !vk.tensor<[M, N], i32> <- tensor<?x?xi32, #vk.axes<i, j>>
}

// CHECK:      vk.mapped @matmul
// CHECK:        %packed_a = vk.buffer "packed_a" [%{{.*}}, %{{.*}}] : !vk.buffer<[?, ?, 6], i32>
// CHECK:        %sums_a = vk.buffer "sums_a" [%{{.*}}] : !vk.buffer<[?, 6], i32>
// CHECK:        vk.launch "pack a"
// CHECK:          vk.load %a[%{{.*}} + k, %{{.*}} + j] : !vk.tensor<[M, K], i8> -> tensor<6x64xi8, #vk.axes<k, j>>
// CHECK-NEXT:     arith.extsi
// CHECK-NEXT:     arith.addi
// CHECK-NEXT:     vk.words %{{.*}} along j : tensor<6x64xi8, #vk.axes<k, j>> -> tensor<6x16xi32, #vk.axes<k, j>>
// CHECK-NEXT:     arith.shrui
// CHECK-NEXT:     vk.store %{{.*}} in %packed_a[%{{.*}}, %{{.*}} + j, k]
// CHECK:          vk.sum
// CHECK:          vk.store %{{.*}} in %sums_a
// CHECK:        vk.launch "pack b"
// CHECK:          vk.load %b[%{{.*}} + k, %{{.*}} + j] : !vk.tensor<[K, N], i8> -> tensor<16x32xi8, #vk.axes<k, j>>
// CHECK-NEXT:     vk.words %{{.*}} along k : tensor<16x32xi8, #vk.axes<k, j>> -> tensor<4x32xi32, #vk.axes<k, j>>
// CHECK-NEXT:     arith.xori
// CHECK:        vk.launch "matmul" over (%p_j = %{{.*}}, %p_i = %{{.*}}) {
// CHECK:          vk.load %sums_a[%p_i, i] : !vk.buffer<[?, 6], i32> -> tensor<6xi32, #vk.axes<i>>
// CHECK:          scf.for %k0
// CHECK:            %x = vk.load %packed_a[%p_i, %{{.*}} + k, i] : !vk.buffer<[?, ?, 6], i32> -> tensor<6x1xi32, #vk.axes<i, k>>
// CHECK-NEXT:       %y = vk.load %packed_b[%p_j, %{{.*}} + k, j] : !vk.buffer<[?, ?, 32], i32> -> tensor<1x32xi32, #vk.axes<k, j>>
// CHECK-NEXT:       vk.word_dot %y, %x, %{{.*}} along k of u8s8
// CHECK-NEXT:       scf.yield
